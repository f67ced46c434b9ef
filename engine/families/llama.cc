// "llama" (Touvron et al. 2023): pre-norm decoder, RMS norms, rotary positions, grouped queries, SwiGLU.
// Names: model.embed_tokens, model.layers.I.{self_attn.{q_proj, k_proj, v_proj, o_proj}, mlp.{gate_proj,
// up_proj, down_proj}, input_layernorm, post_attention_layernorm}, model.norm; without "model." in a base
// model.
//   CausalLM                lm_head, or tied
//   SequenceClassification  score, of the last token that is not pad_token_id
//   TokenClassification     score;  Model  the rows as they are
#include "engine/families/llama.h"

#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

void ReadSizes(Checkpoint& checkpoint, const LlamaDefaults& defaults, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  // Null is as many as heads, or what is left of the width for each, whatever the default.
  const auto unless_null = [&](const char* key, int64_t fallback, int64_t if_null) {
    return fallback == 0 || checkpoint.config().contains(key) ? if_null : fallback;
  };
  decoder.width = Size(fields, "hidden_size", defaults.hidden_size);
  decoder.layers = Size(fields, "num_hidden_layers", defaults.num_hidden_layers, kMostLayers);
  decoder.heads = Size(fields, "num_attention_heads", defaults.num_attention_heads);
  decoder.key_value_heads =
      Size(fields, "num_key_value_heads",
           unless_null("num_key_value_heads", defaults.num_key_value_heads, decoder.heads));
  decoder.head_dim =
      Size(fields, "head_dim", unless_null("head_dim", defaults.head_dim, decoder.width / decoder.heads));
}

void AddLlamaTensors(const std::string& prefix, Decoder& decoder) {
  decoder.tensors().Add("embed.tokens.weight", prefix + "embed_tokens.weight");
  decoder.tensors().AddModule("norm", prefix + "norm");
  decoder.AddModules("norm1", "input_layernorm");
  decoder.AddModules("attention.q", "self_attn.q_proj");
  decoder.AddModules("attention.k", "self_attn.k_proj");
  decoder.AddModules("attention.v", "self_attn.v_proj");
  decoder.AddModules("attention.o", "self_attn.o_proj");
  decoder.AddModules("norm2", "post_attention_layernorm");
  decoder.AddModules("ffn.gate", "mlp.gate_proj");
  decoder.AddModules("ffn.up", "mlp.up_proj");
  decoder.AddModules("ffn.down", "mlp.down_proj");
}

}  // namespace

Decoder ReadLlamaDecoder(Checkpoint& checkpoint, const LlamaDefaults& defaults) {
  JsonFields& fields = checkpoint.fields();
  const std::string prefix = checkpoint.Prefix(std::string(defaults.base));
  Decoder decoder = BeginDecoder(checkpoint, Size(fields, "vocab_size", defaults.vocab_size), defaults.tokens,
                                 prefix + "layers.");
  ReadSizes(checkpoint, defaults, decoder);
  Json attention = {
      {"type", "softmax"}, {"num_key_value_heads", decoder.key_value_heads}, {"head_dim", decoder.head_dim}};
  RopeDefaults turning = defaults.rope;
  turning.within_original = true;
  const Json rope = ReadRope(checkpoint, turning, decoder.head_dim);
  if (!rope.is_null()) attention["rope"] = rope;
  decoder.SetLayers(attention);
  Json& config = decoder.config();
  if (const int64_t longest = LongestTurned(checkpoint)) config["max_seq_length"] = longest;
  config["intermediate_size"] = Size(fields, "intermediate_size", defaults.intermediate_size);
  if (!defaults.act_key.empty())
    config["hidden_act"] = defaults.gated ? GatedName(fields, defaults.act_key, defaults.act)
                                          : ActivationName(fields, defaults.act_key, defaults.act);
  config["norm"] = "pre";
  config["norm_type"] = defaults.norm_type;
  config["layer_norm_eps"] = fields.Number(defaults.eps_key, defaults.eps, 0, 1);
  AddLlamaTensors(prefix, decoder);
  return decoder;
}

void AddQueryKeyNorms(const Json& qk_norm, const std::string& q, const std::string& k, Decoder& decoder) {
  decoder.SetAttention("qk_norm", qk_norm);
  decoder.AddModules("attention.q_norm", q);
  decoder.AddModules("attention.k_norm", k);
}

void SetNormsAfter(Decoder& decoder) {
  decoder.config()["norm"] = "res_post";
  decoder.config()["norm_last"] = true;
  decoder.AddModules("norm1", "post_attention_layernorm");
  decoder.AddModules("norm2", "post_feedforward_layernorm");
}

void SetPositionScale(Checkpoint& checkpoint, Decoder& decoder) {
  const Json scale = ReadPositionScale(checkpoint);
  if (!scale.is_null()) decoder.SetAttention("position_scale", scale);
}

void AddFusedGate(Decoder& decoder) {
  const auto half = [](int part) {
    return [part](const ViewedTensor& fused) { return fused.PartOfGroups(1, {1, 1}, part); };
  };
  decoder.AddModules("ffn.gate", "mlp.gate_up_proj", half(0));
  decoder.AddModules("ffn.up", "mlp.gate_up_proj", half(1));
}

absl::StatusOr<NativeModel> ReadLlamaFamily(Checkpoint& checkpoint) {
  return WithHead(checkpoint, ReadLlamaDecoder(checkpoint, {.tokens = {.bos = 1, .eos = 2}}));
}

}  // namespace heed
