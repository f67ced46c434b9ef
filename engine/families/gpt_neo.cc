// "gpt_neo" (Black et al. 2021): pre-norm decoder, learned positions, scores that are not scaled; local
// layers see the newest window_size. Names: transformer.{wte, wpe}, transformer.h.I.{ln_1,
// attn.attention.{q_proj, k_proj, v_proj, out_proj}, ln_2, mlp.{c_fc, c_proj}}, transformer.ln_f.
//   attention_types   [[["global", "local"], 12]]: lists of kinds, each repeated so often
#include "engine/base/status.h"
#include "engine/families/decoder.h"
#include "engine/families/gpt2.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

// One kind a layer, as attention_types has them; empty where it is no such list.
std::vector<std::string> Expanded(const Json& types) {
  std::vector<std::string> kinds;
  for (const Json& part : types) {
    if (!part.is_array() || part.size() != 2 || !part[0].is_array() || !part[1].is_number_integer())
      return {};
    const int64_t repeats = part[1];
    if (repeats < 0 || repeats > kMostLayers) return {};
    for (int64_t i = 0; i < repeats; ++i) {
      if (kinds.size() + part[0].size() > kMostLayers) return {};
      for (const Json& kind : part[0]) kinds.push_back(kind.is_string() ? kind.get<std::string>() : "");
    }
  }
  return kinds;
}

void SetLocalLayers(Checkpoint& checkpoint, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  const Json& given = fields.Raw("attention_types");
  const Json types =
      given.is_null() ? Json::array({Json::array({Json::array({"global", "local"}), 12})}) : given;
  const std::vector<std::string> kinds = types.is_array() ? Expanded(types) : std::vector<std::string>();
  const int64_t window = fields.Int("window_size", 256, 1, kMostSize);
  if (static_cast<int64_t>(kinds.size()) != decoder.layers)
    return fields.Fail(
        Cat("attention_types: ", Shown(types), " names ", kinds.size(), " of ", decoder.layers, " layers"));
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (kinds[i] == "local") {
      decoder.attention(i)["window"] = window;
    } else if (kinds[i] != "global") {
      fields.Fail(Cat("attention_types: ", Shown(kinds[i]), " is neither global nor local"));
    }
  }
}

}  // namespace

absl::StatusOr<NativeModel> ReadGptNeoFamily(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  const std::string prefix = checkpoint.Prefix("transformer.");
  Decoder decoder = BeginDecoder(checkpoint, Size(fields, "vocab_size", 50257), {.bos = 50256, .eos = 50256},
                                 prefix + "h.");
  decoder.width = Size(fields, "hidden_size", 2048);
  decoder.layers = SizeOfEither(checkpoint, "num_layers", "num_hidden_layers", 24, kMostLayers);
  decoder.heads = SizeOfEither(checkpoint, "num_heads", "num_attention_heads", 16, kMostSize);
  decoder.SetLayers({{"type", "softmax"}, {"scale", 1}});
  SetLocalLayers(checkpoint, decoder);
  Json& config = decoder.config();
  config["intermediate_size"] = Size(fields, "intermediate_size", 4 * decoder.width);
  config["hidden_act"] = ActivationName(fields, "activation_function", "gelu_new");
  config["layer_norm_eps"] = fields.Number("layer_norm_epsilon", 1e-5, 0, 1);
  config["positions"] = "learned";
  config["max_position_embeddings"] = Size(fields, "max_position_embeddings", 2048);

  TensorView& tensors = decoder.tensors();
  tensors.Add("embed.tokens.weight", prefix + "wte.weight");
  tensors.Add("embed.positions.weight", prefix + "wpe.weight");
  tensors.AddModule("norm", prefix + "ln_f");
  decoder.AddModules("norm1", "ln_1");
  decoder.AddModules("attention.q", "attn.attention.q_proj");
  decoder.AddModules("attention.k", "attn.attention.k_proj");
  decoder.AddModules("attention.v", "attn.attention.v_proj");
  decoder.AddModules("attention.o", "attn.attention.out_proj");
  decoder.AddModules("norm2", "ln_2");
  decoder.AddModules("ffn.up", "mlp.c_fc");
  decoder.AddModules("ffn.down", "mlp.c_proj");
  tensors.Ignore("*.attn.attention.bias");
  tensors.Ignore("*.attn.attention.masked_bias");
  return WithHead(checkpoint, std::move(decoder), {.token_classifier = "classifier", .tied = true});
}

}  // namespace heed
