// "gpt_neox" (Black et al. 2022; Pythia): attention and feed-forward beside one another, each with a norm of
// its own (use_parallel_residual false: one after the other), a share rotary_pct of each head turned; rows of
// query_key_value are, head by head, query, key, value. Names: gpt_neox.embed_in, gpt_neox.layers.I.{
// input_layernorm, post_attention_layernorm, attention.{query_key_value, dense}, mlp.{dense_h_to_4h,
// dense_4h_to_h}}, gpt_neox.final_layer_norm, embed_out.
#include "engine/families/decoder.h"
#include "engine/families/parts.h"
#include "engine/families/rope.h"

namespace heed {

absl::StatusOr<NativeModel> ReadGptNeoxFamily(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  const std::string prefix = checkpoint.Prefix("gpt_neox.");
  Decoder decoder =
      BeginDecoder(checkpoint, Size(fields, "vocab_size", 50432), {.bos = 0, .eos = 2}, prefix + "layers.");
  decoder.width = Size(fields, "hidden_size", 6144);
  decoder.layers = Size(fields, "num_hidden_layers", 44, kMostLayers);
  decoder.heads = Size(fields, "num_attention_heads", 64);
  decoder.SetLayers(
      {{"type", "softmax"},
       {"rope",
        ReadRope(checkpoint, {.share = 0.25, .theta_key = "rotary_emb_base", .share_key = "rotary_pct"},
                 decoder.width / decoder.heads)}});
  Json& config = decoder.config();
  config["intermediate_size"] = Size(fields, "intermediate_size", 24576);
  config["hidden_act"] = ActivationName(fields, "hidden_act", "gelu");
  config["layer_norm_eps"] = fields.Number("layer_norm_eps", 1e-5, 0, 1);
  if (fields.Bool("use_parallel_residual", true)) decoder.SetParallel();

  TensorView& tensors = decoder.tensors();
  tensors.Add("embed.tokens.weight", prefix + "embed_in.weight");
  tensors.AddModule("norm", prefix + "final_layer_norm");
  decoder.AddModules("norm1", "input_layernorm");
  decoder.AddFused("attention.query_key_value", decoder.heads, {1, 1, 1});
  decoder.AddModules("attention.o", "attention.dense");
  decoder.AddModules("norm2", "post_attention_layernorm");
  decoder.AddModules("ffn.up", "mlp.dense_h_to_4h");
  decoder.AddModules("ffn.down", "mlp.dense_4h_to_h");
  tensors.Ignore("*.attention.bias");
  tensors.Ignore("*.attention.masked_bias");
  return WithHead(checkpoint, std::move(decoder),
                  {.language_model = "embed_out", .token_classifier = "classifier"});
}

}  // namespace heed
