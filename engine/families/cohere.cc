// "cohere" (Command R, 2024): Llama's names, attention and feed-forward beside one another, both of one layer
// norm, norms without biases; pairs of neighbours are turned; logits times logit_scale. "cohere2" (2025):
// three layers with a window, which are turned, to one without, which is not. "cohere2_moe" (2026): experts
// beside the attention; those for all rows are not served. "cohere_compass_text" (2026): as cohere2, halves
// turned instead of neighbours; full_attention layers are turned where rope_parameters says so.
//   CohereCompassText  Model;  SequenceClassification  score, of the mean of all rows or the last (pooling)
#include "engine/base/status.h"
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

Decoder ReadCohere(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 256000,
                                                  .hidden_size = 8192,
                                                  .intermediate_size = 22528,
                                                  .num_hidden_layers = 40,
                                                  .num_attention_heads = 64,
                                                  .tokens = {.bos = 5, .eos = 255001, .pad = 0},
                                                  .norm_type = "layer",
                                                  .eps_key = "layer_norm_eps",
                                                  .eps = 1e-5,
                                                  .rope = {.interleaved = true}});
  decoder.SetParallel("input_layernorm");
  decoder.config()["norm_bias"] = false;
  const double scale = checkpoint.fields().Number("logit_scale", 0.0625, -1e6, 1e6);
  if (checkpoint.task() == "CausalLM") decoder.config()["logits_scale"] = scale;
  return decoder;
}

// Windows; layers without are not turned.
void SetCohereWindows(Checkpoint& checkpoint, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  const int64_t pattern =
      fields.Int("sliding_window_pattern", fields.Int("_sliding_window_pattern", 4, 1, 1024), 1, 1024);
  const std::vector<bool> sliding =
      SlidingLayers(checkpoint, decoder.layers, [&](int64_t i) { return (i + 1) % pattern != 0; });
  SetWindows(sliding, WindowOf(checkpoint, 4096), decoder);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (!sliding[i]) decoder.attention(i).erase("rope");
  }
}

}  // namespace

absl::StatusOr<NativeModel> ReadCohereFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadCohere(checkpoint);
  if (checkpoint.fields().Bool("use_qk_norm", false)) {
    AddQueryKeyNorms({{"type", "layer"}, {"over", "head"}, {"per_head", true}}, "self_attn.q_norm",
                     "self_attn.k_norm", decoder);
  }
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

absl::StatusOr<NativeModel> ReadCohere2Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadCohere(checkpoint);
  SetCohereWindows(checkpoint, decoder);
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

absl::StatusOr<NativeModel> ReadCohere2MoeFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadCohere(checkpoint);
  SetCohereWindows(checkpoint, decoder);
  JsonFields& fields = checkpoint.fields();
  checkpoint.Require("num_shared_experts", 0);
  checkpoint.Require("prefix_dense_intermediate_size", nullptr);
  const Mixture mixture{.options = {{"experts", Size(fields, "num_experts", 128)},
                                    {"top_k", Size(fields, "num_experts_per_tok", 8)},
                                    {"score", fields.Choice("expert_selection_fn", {"softmax", "sigmoid"})},
                                    {"normalize", fields.Bool("norm_topk_prob", true)}}};
  SetMixtures(checkpoint, LayersWithExperts(checkpoint, decoder.layers, 0), mixture, decoder);
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

absl::StatusOr<NativeModel> ReadCohereCompassFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadCohere(checkpoint);
  JsonFields& fields = checkpoint.fields();
  const std::vector<bool> sliding =
      SlidingLayers(checkpoint, decoder.layers, [](int64_t i) { return (i + 1) % 4 != 0; });
  SetWindows(sliding, WindowOf(checkpoint, 4096), decoder);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    decoder.attention(i).erase("rope");
    const Json rope =
        ReadRope(checkpoint, {}, decoder.head_dim, sliding[i] ? "sliding_attention" : "full_attention");
    if (!rope.is_null()) decoder.attention(i)["rope"] = rope;
  }
  if (checkpoint.task() == "Model") return std::move(decoder.model);
  if (checkpoint.task() != "SequenceClassification")
    return checkpoint.UnknownTask({"Model", "ForSequenceClassification"});
  SetLabels(checkpoint, "classification", decoder.config());
  decoder.config()["pooling"] = fields.Choice("pooling", {"mean", "last"});
  AddScore(decoder);
  return std::move(decoder.model);
}

}  // namespace heed
