// What many families have in common: keys of config.json, and how modules of their files are named.
#ifndef HEED_ENGINE_FAMILIES_PARTS_H_
#define HEED_ENGINE_FAMILIES_PARTS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/families/family.h"

namespace heed {

// Limits of config.json's numbers; the native format has its own, these keep arithmetic within 64 bits.
inline constexpr int64_t kMostSize = 1 << 24;
inline constexpr int64_t kMostLayers = 1024;

// A number that must be there if the family has no default (0).
int64_t Size(JsonFields& fields, std::string_view key, int64_t fallback, int64_t most = kMostSize);

// The native name of an activation ("gelu_pytorch_tanh": "gelu_new"); "" where it has none, and the fields
// fail.
std::string ActivationName(JsonFields& fields, std::string_view key, std::string_view fallback);
// The gated form of one: "swiglu" of "silu".
std::string GatedName(JsonFields& fields, std::string_view key, std::string_view fallback);

// A native configuration with what all have: vocab_size, ids of tokens that lie below it, names of labels.
Json BeginConfig(Checkpoint& checkpoint, std::string_view architecture, int64_t vocab_size);

// An id that config.json leaves out, as the configuration class has it; none if the vocabulary has no such
// id.
void DefaultToken(std::string_view key, int64_t id, Json& config);
// Takes ids of tokens from the fields of config.json or of generation_config.json, those that lie below
// `vocab_size`.
void TakeTokenIds(JsonFields& fields, int64_t vocab_size, Json& config);

// Heads of a native configuration. Labels: those of id2label, 2 where there are none. A single one is a score
// by itself: its sigmoid.
void SetLabels(Checkpoint& checkpoint, std::string_view head, Json& config);
// Start and end of an answer in a text: two labels for each token.
void SetSpanLabels(Json& config);
// TokenClassification ("classifier") and QuestionAnswering ("qa_outputs"); false: the task is neither.
bool AddTokenHead(Checkpoint& checkpoint, NativeModel& model);
// A product of the first row, and the classifier behind it.
struct Pooler {
  std::string module;        // the product
  Json hidden_act = "tanh";  // native
  int64_t width = 0;         // 0: hidden_size
  std::string classifier = "classifier";
};
// SequenceClassification of the first row.
void AddPooledClassifier(Checkpoint& checkpoint, const Pooler& pooler, NativeModel& model);
// The same where modules are called NAME.{dense (hidden_act), out_proj}.
void AddFirstRowClassifier(Checkpoint& checkpoint, const std::string& name, const Json& hidden_act,
                           NativeModel& model);
// A text's row is that of its last token that is not pad_token_id; of its last where the model has no such
// id.
void PoolLastToken(Json& config);
// MaskedLM: NAME.{dense (hidden_act), NORM, bias}, NAME.decoder tied to the embedding, which is `width` wide.
void AddMaskedHead(const std::string& name, const std::string& norm, const Json& width,
                   const Json& hidden_act, NativeModel& model);
// One more of the head's layers.
void AddHeadLayer(int64_t width, const Json& hidden_act, bool norm, Json& config);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_PARTS_H_
