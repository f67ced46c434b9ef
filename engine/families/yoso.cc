// "yoso" (Zeng et al. 2021): BERT's layers with YOSO's attention, of which the expectation is computed, as
// transformers does when it evaluates (use_expectation). The table of positions has two rows in front that
// belong to none.
//   MaskedLM                cls.predictions.{transform.{dense, LayerNorm}, bias}, tied to the embedding
//   SequenceClassification  classifier.{dense (hidden_act), out_proj}, of the first row
//   TokenClassification     classifier;  QuestionAnswering  qa_outputs;  Model  the rows as they are
// Not served: a convolution of values (conv_window), hashes that are drawn (use_expectation false).
#include <utility>

#include "engine/families/bert.h"
#include "engine/families/parts.h"

namespace heed {

absl::StatusOr<NativeModel> ReadYosoFamily(Checkpoint& checkpoint) {
  const std::string prefix = checkpoint.Prefix("yoso.");
  JsonFields& fields = checkpoint.fields();
  NativeModel model = ReadBertEncoder(checkpoint, {.prefix = prefix, .skipped = 2});
  Json& config = model.config;
  if (!fields.Raw("conv_window").is_null()) fields.Fail("conv_window: a convolution of values is not served");
  checkpoint.Require("use_expectation", true);
  config["vocab_size"] = Size(fields, "vocab_size", 50265);
  config["max_position_embeddings"] = Size(fields, "max_position_embeddings", 4096);
  config["type_vocab_size"] = fields.Int("type_vocab_size", 1, 0, kMostSize);
  const int64_t bits = Size(fields, "hash_code_len", 9, 64);
  for (Json& layer : config["layers"]) layer["attention"] = {{"type", "yoso"}, {"hash_bits", bits}};
  model.tensors->Ignore(prefix + "pooler.*");
  return WithUnpooledHead(checkpoint, std::move(model));
}

}  // namespace heed
