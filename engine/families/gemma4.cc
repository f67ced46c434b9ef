// "gemma4_text" (Gemma 4, 2026), the dense ones: Gemma 3's layers, norms whose weights are stored as they
// are, values normed too, scores that are not scaled, rows times layer_scalar behind each layer. Whole
// layers have other heads (per_layer_config, or global_head_dim and num_global_key_value_heads), of which a
// share is turned, and, with attention_k_eq_v, values that are the keys before their norm. Not served:
// inputs of each layer (hidden_size_per_layer_input), keys shared among layers (num_kv_shared_layers),
// experts.
#include <cmath>

#include "engine/base/status.h"
#include "engine/families/llama.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

// Heads of the i-th layer.
void SetHeads(Checkpoint& checkpoint, int64_t i, bool sliding, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  Json& attention = decoder.attention(i);
  int64_t head_dim = decoder.head_dim, heads = decoder.key_value_heads;
  if (!sliding) {
    head_dim = Size(fields, "global_head_dim", head_dim);
    heads = Size(fields, "num_global_key_value_heads", heads);
  }
  const Json& all = fields.Raw("per_layer_config");
  if (all.is_object() && all.contains(Cat(i))) {
    JsonFields own(all[Cat(i)], fields.Name(Cat("per_layer_config.", i)));
    head_dim = Size(own, "head_dim", head_dim);
    heads = Size(own, "num_key_value_heads", heads);
    fields.Fail(own.error());
  }
  attention["head_dim"] = head_dim;
  attention["num_key_value_heads"] = heads;
  attention["rope"] = ReadRope(checkpoint, {.theta = sliding ? 1e4 : 1e6}, head_dim,
                               sliding ? "sliding_attention" : "full_attention");
  const std::string of = Cat(decoder.layer_prefix, i, ".self_attn.");
  if (!checkpoint.Has(of + "v_proj.weight"))
    decoder.tensors().AddModule(Cat("layers.", i, ".attention.v"), of + "k_proj");
}

void SetNorms(Decoder& decoder) {
  decoder.config()["norm"] = "sandwich";
  decoder.AddModules("norm1_post", "post_attention_layernorm");
  decoder.AddModules("norm2", "pre_feedforward_layernorm");
  decoder.AddModules("norm2_post", "post_feedforward_layernorm");
  AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  decoder.SetAttention("v_norm", true);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    decoder.layer(i)["layer_scale"] = true;
    decoder.tensors().Add(Cat("layers.", i, ".layer_scale.weight"),
                          Cat(decoder.layer_prefix, i, ".layer_scalar"));
  }
}

}  // namespace

absl::StatusOr<NativeModel> ReadGemma4Family(Checkpoint& checkpoint) {
  for (const char* key : {"enable_moe_block", "use_bidirectional_attention"}) checkpoint.Require(key, false);
  for (const char* key : {"hidden_size_per_layer_input", "num_kv_shared_layers"}) checkpoint.Require(key, 0);
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 262144,
                                                  .hidden_size = 2304,
                                                  .intermediate_size = 9216,
                                                  .num_hidden_layers = 30,
                                                  .num_attention_heads = 8,
                                                  .num_key_value_heads = 4,
                                                  .head_dim = 256,
                                                  .tokens = {.bos = 2, .eos = 1, .pad = 0},
                                                  .act_key = "hidden_activation",
                                                  .act = "gelu_pytorch_tanh"});
  decoder.config()["embedding_scale"] = std::sqrt(static_cast<double>(decoder.width));
  SetNorms(decoder);
  decoder.SetAttention("scale", 1.0);
  const std::vector<bool> sliding =
      SlidingLayers(checkpoint, decoder.layers, [](int64_t i) { return (i + 1) % 6 != 0; });
  SetWindows(sliding, WindowOf(checkpoint, 512), decoder);
  for (int64_t i = 0; i < decoder.layers; ++i) SetHeads(checkpoint, i, sliding[i], decoder);
  const auto cap = NumberOrNone(checkpoint, "final_logit_softcapping", std::nullopt, 1e-3, 1e6);
  if (cap && checkpoint.task() == "CausalLM") decoder.config()["logits_soft_cap"] = *cap;
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

}  // namespace heed
