// "nystromformer" (Xiong et al. 2021): BERT's layers with attention through num_landmarks landmarks, or in
// full where these are as many as segment_means_seq_len, and a convolution of values. The table of positions
// has two rows in front that belong to none.
//   MaskedLM                cls.predictions.{transform.{dense, LayerNorm}, bias}, tied to the embedding
//   SequenceClassification  classifier.{dense (hidden_act), out_proj}, of the first row
//   TokenClassification     classifier;  QuestionAnswering  qa_outputs
// transformers takes landmarks of texts of segment_means_seq_len tokens alone; here texts have any length.
#include <utility>

#include "engine/base/status.h"
#include "engine/families/bert.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr int64_t kSkipped = 2;

std::string Convolution(const std::string& prefix, size_t layer) {
  return Cat(prefix, "encoder.layer.", layer, ".attention.self.conv.weight");
}

// Keys that have other defaults than BERT's, and the attention.
void ReadShape(Checkpoint& checkpoint, const std::string& prefix, Json& config) {
  JsonFields& fields = checkpoint.fields();
  checkpoint.Require("inv_coeff_init_option", false);
  config["vocab_size"] = Size(fields, "vocab_size", 30000);
  config["hidden_act"] = ActivationName(fields, "hidden_act", "gelu_new");
  config["layer_norm_eps"] = fields.Number("layer_norm_eps", 1e-5, 0, 1);
  const int64_t positions = Size(fields, "max_position_embeddings", 510);
  config["max_position_embeddings"] = positions;
  int64_t landmarks = Size(fields, "num_landmarks", 64);
  if (landmarks == Size(fields, "segment_means_seq_len", 64)) landmarks = positions;  // all attend to all
  Json attention = {{"type", "nystrom"}, {"num_landmarks", landmarks}, {"inverse_start", "all_heads"}};
  if (checkpoint.Has(Convolution(prefix, 0))) attention["conv_kernel"] = Size(fields, "conv_kernel_size", 65);
  for (Json& layer : config["layers"]) layer["attention"] = attention;
}

}  // namespace

absl::StatusOr<NativeModel> ReadNystromformerFamily(Checkpoint& checkpoint) {
  const std::string prefix = checkpoint.Prefix("nystromformer.");
  NativeModel model = ReadBertEncoder(checkpoint, {.prefix = prefix, .skipped = kSkipped});
  ReadShape(checkpoint, prefix, model.config);
  Json& config = model.config;
  for (size_t i = 0; i < config["layers"].size(); ++i)
    model.tensors->Add(Cat("layers.", i, ".attention.conv.weight"), Convolution(prefix, i));
  return WithUnpooledHead(checkpoint, std::move(model));
}

}  // namespace heed
