// "gpt2" (Radford et al. 2019): pre-norm decoder, learned positions, tied head. Its products are stored as
// [in, out], queries, keys and values as one. Names: transformer.{wte, wpe}, transformer.h.I.{ln_1,
// attn.{c_attn, c_proj}, ln_2, mlp.{c_fc, c_proj}}, transformer.ln_f; without "transformer." in a base model.
//   scale_attn_by_inverse_layer_idx   scores are also divided by the layer's number, from 1 on
#include "engine/families/gpt2.h"

#include <cmath>

#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {

int64_t SizeOfEither(Checkpoint& checkpoint, std::string_view key, std::string_view other, int64_t fallback,
                     int64_t most) {
  JsonFields& fields = checkpoint.fields();
  return fields.Has(key) ? Size(fields, key, fallback, most) : Size(fields, other, fallback, most);
}

Decoder ReadGpt2Decoder(Checkpoint& checkpoint, std::string_view activation) {
  JsonFields& fields = checkpoint.fields();
  const std::string prefix = checkpoint.Prefix("transformer.");
  Decoder decoder = BeginDecoder(checkpoint, Size(fields, "vocab_size", 50257), {.bos = 50256, .eos = 50256},
                                 prefix + "h.");
  decoder.width = SizeOfEither(checkpoint, "n_embd", "hidden_size", 768, kMostSize);
  decoder.layers = SizeOfEither(checkpoint, "n_layer", "num_hidden_layers", 12, kMostLayers);
  decoder.heads = decoder.key_value_heads =
      SizeOfEither(checkpoint, "n_head", "num_attention_heads", 12, kMostSize);
  decoder.head_dim = decoder.width / decoder.heads;
  decoder.SetLayers({{"type", "softmax"}});
  const bool scaled = fields.Bool("scale_attn_weights", true);
  const bool by_layer = fields.Bool("scale_attn_by_inverse_layer_idx", false);
  for (int64_t i = 0; i < decoder.layers && (!scaled || by_layer); ++i) {
    decoder.attention(i)["scale"] = (scaled ? 1 / std::sqrt(static_cast<double>(decoder.head_dim)) : 1) /
                                    (by_layer ? static_cast<double>(i + 1) : 1);
  }
  Json& config = decoder.config();
  config["intermediate_size"] = Size(fields, "n_inner", 4 * decoder.width);
  config["hidden_act"] = ActivationName(fields, "activation_function", activation);
  config["layer_norm_eps"] = fields.Number("layer_norm_epsilon", 1e-5, 0, 1);
  config["positions"] = "learned";
  config["max_position_embeddings"] =
      SizeOfEither(checkpoint, "n_positions", "max_position_embeddings", 1024, kMostSize);

  TensorView& tensors = decoder.tensors();
  tensors.Add("embed.tokens.weight", prefix + "wte.weight");
  tensors.Add("embed.positions.weight", prefix + "wpe.weight");
  tensors.AddModule("norm", prefix + "ln_f");
  decoder.AddModules("norm1", "ln_1");
  decoder.AddModules("norm2", "ln_2");
  tensors.Ignore("*.attn.bias");
  tensors.Ignore("*.attn.masked_bias");
  return decoder;
}

absl::StatusOr<NativeModel> ReadGpt2Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadGpt2Decoder(checkpoint, "gelu_new");
  TensorView& tensors = decoder.tensors();
  for (int64_t i = 0; i < decoder.layers; ++i) {
    const std::string of = Cat(decoder.layer_prefix, i, "."), to = Cat("layers.", i, ".");
    const ViewedTensor weight = ViewedTensor(of + "attn.c_attn.weight").Transposed(),
                       bias(of + "attn.c_attn.bias");
    for (int part = 0; part < 3; ++part) {
      const std::string product = Cat(to, "attention.", std::string_view("qkv").substr(part, 1));
      tensors.Add(product + ".weight", weight.PartOfGroups(1, {1, 1, 1}, part));
      tensors.Add(product + ".bias", bias.PartOfGroups(1, {1, 1, 1}, part));
    }
    const auto add = [&](const std::string& name, const std::string& module) {
      tensors.Add(name + ".weight", ViewedTensor(module + ".weight").Transposed());
      tensors.Add(name + ".bias", module + ".bias");
    };
    add(to + "attention.o", of + "attn.c_proj");
    add(to + "ffn.up", of + "mlp.c_fc");
    add(to + "ffn.down", of + "mlp.c_proj");
  }
  return WithHead(checkpoint, std::move(decoder), {.token_classifier = "classifier", .tied = true});
}

}  // namespace heed
