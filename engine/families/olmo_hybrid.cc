// "olmo_hybrid" (Ai2 2026): layers of the gated delta rule, its betas up to 2 with linear_allow_neg_eigval,
// normed before as Llama's are; every fourth layer is OLMo 3's: attention with norms of all queries and of
// all keys, normed after. rope_parameters null: nothing is turned. Of a delta layer linear_attn.{q_proj,
// k_proj, v_proj, a_proj, b_proj, g_proj, o_proj, q_conv1d, k_conv1d, v_conv1d, A_log, dt_bias, o_norm}; its
// norms are called attention_layer_norm and feedforward_layer_norm, or as Llama's.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/families/gated_delta.h"
#include "engine/families/llama.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

// Sizes that follow from others where config.json does not say them.
DeltaHeads ReadHeads(JsonFields& fields, const Decoder& decoder) {
  const int64_t key_heads = Size(fields, "linear_num_key_heads", decoder.heads),
                key_dim = Size(fields, "linear_key_head_dim",
                               std::max<int64_t>(1, 3 * decoder.width / (4 * key_heads)));
  return ReadDeltaHeads(
      fields,
      {.key_heads = key_heads, .value_heads = decoder.heads, .key_dim = key_dim, .value_dim = 2 * key_dim});
}

// The convolution of queries, keys and values, in one tensor or in three.
ViewedTensor Convolution(const Checkpoint& checkpoint, const std::string& of, int64_t kernel) {
  const std::string whole = of + "conv1d.weight";
  if (checkpoint.Has(whole)) return ViewedTensor(whole).Shaped({-1, kernel});
  return ViewedTensor::Joined({of + "q_conv1d.weight", of + "k_conv1d.weight", of + "v_conv1d.weight"})
      .Shaped({-1, kernel});
}

void SetDelta(const Checkpoint& checkpoint, int64_t i, const DeltaHeads& heads, Decoder& decoder) {
  const std::string layer = Cat(decoder.layer_prefix, i, "."), of = layer + "linear_attn.",
                    to = Cat("layers.", i, ".attention.");
  TensorView& tensors = decoder.tensors();
  for (const auto& [name, module] :
       {std::pair("q", "q_proj"), std::pair("k", "k_proj"), std::pair("v", "v_proj"),
        std::pair("gate", "g_proj"), std::pair("a", "a_proj"), std::pair("b", "b_proj"),
        std::pair("o", "o_proj")})
    tensors.AddModule(to + name, of + module);
  tensors.Add(to + "convolution.weight", Convolution(checkpoint, of, heads.kernel));
  tensors.Add(to + "a_log", of + "A_log");
  tensors.Add(to + "dt_bias", of + "dt_bias");
  tensors.AddModule(to + "norm", of + "o_norm");
  if (!checkpoint.Has(layer + "attention_layer_norm.weight")) return;
  tensors.AddModule(Cat("layers.", i, ".norm1"), layer + "attention_layer_norm");
  tensors.AddModule(Cat("layers.", i, ".norm2"), layer + "feedforward_layer_norm");
}

void NormBehind(const Checkpoint& checkpoint, int64_t i, Decoder& decoder) {
  const std::string layer = Cat(decoder.layer_prefix, i, "."), other = layer + "feedforward_layer_norm";
  decoder.layer(i)["norm"] = "res_post";
  decoder.tensors().AddModule(Cat("layers.", i, ".norm1"),
                              checkpoint.Has(other + ".weight") ? other : layer + "post_attention_layernorm");
  decoder.tensors().AddModule(Cat("layers.", i, ".norm2"), layer + "post_feedforward_layernorm");
}

}  // namespace

absl::StatusOr<NativeModel> ReadOlmoHybridFamily(Checkpoint& checkpoint) {
  constexpr double kDeltaEps = 1e-5;  // of a delta layer's own norm, whatever config.json says
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 100352,
                                                  .hidden_size = 3840,
                                                  .num_attention_heads = 30,
                                                  .tokens = {.eos = 100257, .pad = 100277}});
  JsonFields& fields = checkpoint.fields();
  AddQueryKeyNorms({{"type", "rms"}, {"over", "all"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  const Json& rope = fields.Raw("rope_parameters");
  const bool turned = rope.is_object() && rope.value("rope_theta", Json()).is_number();
  const DeltaHeads heads = ReadHeads(fields, decoder);
  Json delta = DeltaAttention(heads);
  delta["norm_eps"] = kDeltaEps;
  delta["negative_eigenvalues"] = fields.Bool("linear_allow_neg_eigval", true);
  const std::vector<bool> linear =
      LinearLayers(checkpoint, decoder.layers, [](int64_t i) { return i % 4 != 3; });
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (!turned) decoder.attention(i).erase("rope");
    if (linear[i]) {
      decoder.attention(i) = delta;
      SetDelta(checkpoint, i, heads, decoder);
    } else {
      NormBehind(checkpoint, i, decoder);
    }
  }
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
