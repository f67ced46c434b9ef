// "gemma" (Gemma team 2024): Llama's layers, tokens times the root of their width, norms whose weights are
// stored minus one, a feed-forward gated by GELU. "gemma2" (2024): norms before and after each sublayer (
// input_layernorm, post_attention_layernorm, pre_feedforward_layernorm, post_feedforward_layernorm), capped
// scores and logits, a window in every other layer. "gemma3_text" (2025): norms of queries and keys, five
// layers with a window, which are turned by rope_local_base_freq, to one without; with
// use_bidirectional_attention an encoder (EmbeddingGemma).
#include <cmath>

#include "engine/families/llama.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

Decoder ReadGemma(Checkpoint& checkpoint, LlamaDefaults defaults) {
  defaults.head_dim = 256;
  defaults.tokens = {.bos = 2, .eos = 1, .pad = 0};
  defaults.act = "gelu_pytorch_tanh";
  Decoder decoder = ReadLlamaDecoder(checkpoint, defaults);
  decoder.config()["norm_offset"] = 1;
  decoder.config()["embedding_scale"] = std::sqrt(static_cast<double>(decoder.width));
  return decoder;
}

// What the second and the third have in common.
Decoder ReadSandwich(Checkpoint& checkpoint, LlamaDefaults defaults) {
  defaults.hidden_size = 2304;
  defaults.intermediate_size = 9216;
  defaults.num_hidden_layers = 26;
  defaults.num_attention_heads = 8;
  defaults.num_key_value_heads = 4;
  defaults.act_key = "hidden_activation";
  Decoder decoder = ReadGemma(checkpoint, defaults);
  decoder.config()["norm"] = "sandwich";
  decoder.AddModules("norm1_post", "post_attention_layernorm");
  decoder.AddModules("norm2", "pre_feedforward_layernorm");
  decoder.AddModules("norm2_post", "post_feedforward_layernorm");
  decoder.SetAttention("scale",
                       1 / std::sqrt(checkpoint.fields().Number("query_pre_attn_scalar", 256, 1e-6, 1e6)));
  return decoder;
}

void SetCaps(Checkpoint& checkpoint, std::optional<double> of_scores, std::optional<double> of_logits,
             Decoder& decoder) {
  constexpr double kLeast = 1e-3, kMost = 1e6;
  if (const auto cap = NumberOrNone(checkpoint, "attn_logit_softcapping", of_scores, kLeast, kMost))
    decoder.SetAttention("soft_cap", *cap);
  const auto cap = NumberOrNone(checkpoint, "final_logit_softcapping", of_logits, kLeast, kMost);
  if (cap && checkpoint.task() == "CausalLM") decoder.config()["logits_soft_cap"] = *cap;
}

// The layers with a window turn otherwise: since transformers 5 as rope_parameters say, before it unscaled.
void TurnLocalLayers(Checkpoint& checkpoint, const std::vector<bool>& sliding, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  const double theta = fields.Number("rope_local_base_freq", 10000, 1, 1e12);
  const Json rope = fields.Has("rope_parameters")
                        ? ReadRope(checkpoint, {.theta = theta}, decoder.head_dim, "sliding_attention")
                        : Json{{"theta", theta}, {"dims", decoder.head_dim}};
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (sliding[i]) decoder.attention(i)["rope"] = rope;
  }
}

}  // namespace

absl::StatusOr<NativeModel> ReadGemmaFamily(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  const bool told = checkpoint.version() < 5 && fields.Has("hidden_activation");
  Decoder decoder = ReadGemma(checkpoint, {.vocab_size = 256000,
                                           .hidden_size = 3072,
                                           .intermediate_size = 24576,
                                           .num_hidden_layers = 28,
                                           .num_attention_heads = 16,
                                           .num_key_value_heads = 16,
                                           .act_key = told ? "hidden_activation" : "hidden_act"});
  // Files of the first days say "gelu", and mean this.
  if (!told && fields.String("hidden_act", "") == "gelu") decoder.config()["hidden_act"] = "geglu_new";
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

absl::StatusOr<NativeModel> ReadGemma2Family(Checkpoint& checkpoint) {
  checkpoint.Require("use_bidirectional_attention", false);
  Decoder decoder = ReadSandwich(checkpoint, {.vocab_size = 256000});
  SetCaps(checkpoint, 50, 30, decoder);
  SetWindows(SlidingLayers(checkpoint, decoder.layers, [](int64_t i) { return i % 2 == 0; }),
             WindowOf(checkpoint, 4096), decoder);
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

absl::StatusOr<NativeModel> ReadGemma3Family(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  Decoder decoder = ReadSandwich(checkpoint, {.vocab_size = 262208, .rope = {.theta = 1e6}});
  AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  SetCaps(checkpoint, std::nullopt, std::nullopt, decoder);
  const int64_t pattern =
      fields.Int("sliding_window_pattern", fields.Int("_sliding_window_pattern", 6, 1, 1024), 1, 1024);
  const std::vector<bool> sliding =
      SlidingLayers(checkpoint, decoder.layers, [&](int64_t i) { return (i + 1) % pattern != 0; });
  TurnLocalLayers(checkpoint, sliding, decoder);
  // Of an encoder half of it lies to either side, there as here.
  SetWindows(sliding, WindowOf(checkpoint, 4096), decoder);
  if (fields.Bool("use_bidirectional_attention", false)) decoder.config()["architecture"] = "encoder";
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

}  // namespace heed
