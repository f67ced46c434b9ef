// "gptj" (Wang and Komatsuzaki 2021): attention and feed-forward beside one another, both of one norm; pairs
// of neighbours among the first rotary_dim numbers of a head are turned. Names: transformer.wte,
// transformer.h.I.{ln_1, attn.{q_proj, k_proj, v_proj, out_proj}, mlp.{fc_in, fc_out}}, transformer.ln_f,
// lm_head with a bias. "codegen" (Nijkamp et al. 2022): the same with one qkv_proj, in four blocks of rows,
// each queries, values, keys.
#include "engine/families/decoder.h"
#include "engine/families/gpt2.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

Decoder ReadGptj(Checkpoint& checkpoint, int32_t bos) {
  JsonFields& fields = checkpoint.fields();
  const std::string prefix = checkpoint.Prefix("transformer.");
  Decoder decoder =
      BeginDecoder(checkpoint, Size(fields, "vocab_size", 50400), {.bos = bos, .eos = 50256}, prefix + "h.");
  decoder.width = SizeOfEither(checkpoint, "n_embd", "hidden_size", 4096, kMostSize);
  decoder.layers = SizeOfEither(checkpoint, "n_layer", "num_hidden_layers", 28, kMostLayers);
  decoder.heads = SizeOfEither(checkpoint, "n_head", "num_attention_heads", 16, kMostSize);
  decoder.SetLayers(
      {{"type", "softmax"}, {"rope", {{"dims", Size(fields, "rotary_dim", 64)}, {"layout", "interleaved"}}}});
  Json& config = decoder.config();
  config["intermediate_size"] = Size(fields, "n_inner", 4 * decoder.width);
  config["hidden_act"] = ActivationName(fields, "activation_function", "gelu_new");
  config["layer_norm_eps"] = fields.Number("layer_norm_epsilon", 1e-5, 0, 1);

  TensorView& tensors = decoder.tensors();
  tensors.Add("embed.tokens.weight", prefix + "wte.weight");
  tensors.AddModule("norm", prefix + "ln_f");
  decoder.SetParallel("ln_1");
  decoder.AddModules("attention.o", "attn.out_proj");
  decoder.AddModules("ffn.up", "mlp.fc_in");
  decoder.AddModules("ffn.down", "mlp.fc_out");
  tensors.Ignore("*.attn.bias");
  tensors.Ignore("*.attn.masked_bias");
  tensors.Ignore("*.attn.causal_mask");
  return decoder;
}

}  // namespace

absl::StatusOr<NativeModel> ReadGptjFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadGptj(checkpoint, 50256);
  decoder.AddModules("attention.q", "attn.q_proj");
  decoder.AddModules("attention.k", "attn.k_proj");
  decoder.AddModules("attention.v", "attn.v_proj");
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadCodegenFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadGptj(checkpoint, 1);
  constexpr int64_t kBlocks = 4;
  decoder.AddFused("attn.qkv_proj", kBlocks, {1, 1, 1}, /*order=*/{0, 2, 1});
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
