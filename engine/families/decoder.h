// Families of decoders: what they have in common, whatever their modules are called.
#ifndef HEED_ENGINE_FAMILIES_DECODER_H_
#define HEED_ENGINE_FAMILIES_DECODER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/families/family.h"

namespace heed {

// Ids of a configuration class, which hold where config.json says nothing. Null: none.
struct TokenIds {
  Json bos = nullptr, eos = nullptr, pad = nullptr;
};

// A decoder while it is read: its sizes, and the native model as far as it is known.
struct Decoder {
  NativeModel model;
  std::string layer_prefix;  // of a layer's tensors, before its number: "model.layers."
  int64_t width = 0, layers = 0, heads = 0, key_value_heads = 0, head_dim = 0;

  // A native configuration of `layers` layers that have the attention; hidden_size, num_attention_heads.
  void SetLayers(const Json& attention);
  Json& config() { return model.config; }
  TensorView& tensors() { return *model.tensors; }
  Json& layer(int64_t i) { return model.config["layers"][i]; }
  Json& attention(int64_t i) { return layer(i)["attention"]; }
  // In every layer.
  void SetAttention(const std::string& key, const Json& value);
  // Attention and feed-forward beside one another; with `norm`, both read this norm of the layer's input.
  void SetParallel(const std::string& norm = "");
  // Weight and bias of `name` in every layer: those of `module`, as `part` makes them of both.
  void AddModules(const std::string& name, const std::string& module);
  void AddModules(const std::string& name, const std::string& module,
                  absl::FunctionRef<ViewedTensor(const ViewedTensor&)> part);
  // Queries, keys and values of one module, whose rows are `groups` groups, each in parts of these sizes;
  // `order`: which of the parts are queries, keys and values.
  void AddFused(const std::string& module, int64_t groups, const std::vector<int64_t>& sizes,
                const std::array<int, 3>& order = {0, 1, 2});
};

// A decoder without layers. `prefix`: of the layers' tensors.
Decoder BeginDecoder(Checkpoint& checkpoint, int64_t vocab_size, const TokenIds& tokens,
                     std::string layer_prefix);

// What stands in config.json where null is a value of its own: `fallback` only where the key is absent, null
// is none.
std::optional<double> NumberOrNone(Checkpoint& checkpoint, std::string_view key,
                                   std::optional<double> fallback, double min, double max);
// sliding_window: how many rows a row sees, itself included; 0: all.
int64_t WindowOf(Checkpoint& checkpoint, int64_t fallback);
// Which layers are "sliding_attention" by config.json's layer_types, of which there are no others but
// "full_attention"; without them those that `rule` says.
std::vector<bool> SlidingLayers(Checkpoint& checkpoint, int64_t layers,
                                absl::FunctionRef<bool(int64_t)> rule);
void SetWindows(const std::vector<bool>& sliding, int64_t window, Decoder& decoder);

// In every layer a learned sink a head: self_attn.sinks.
void AddLearnedSinks(Decoder& decoder);

// The classifier of num_labels that files call "score", which has no bias.
void AddScore(Decoder& decoder);
// How a family's heads are called.
struct DecoderHead {
  std::string language_model = "lm_head";
  std::string token_classifier = "score";
  bool tied = false;  // where config.json has no tie_word_embeddings
};
// The model with the head that `architectures` asks for: CausalLM; SequenceClassification, of the last token
// that is not pad_token_id; TokenClassification; none.
absl::StatusOr<NativeModel> WithHead(Checkpoint& checkpoint, Decoder decoder, const DecoderHead& head = {});

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_DECODER_H_
