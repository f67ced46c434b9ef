// "lfm3" (Liquid AI 2026): LFM2's layers, by layer_types "conv", "full_attention" or "sliding_attention",
// with norms after sublayers too (use_sandwich_norm: post_operator_norm, post_ffn_norm) and a sigmoid of each
// head's results (use_attention_gate: self_attn.gate_proj); queries and keys are normed by q_norm and k_norm,
// and each kind of attention turns by rope_parameters of its own.
//   CausalLM  tied to the embedding, or lm_head
//   Model     the rows as they are
#include <algorithm>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/families/decoder.h"
#include "engine/families/lfm2.h"
#include "engine/families/parts.h"
#include "engine/families/rope.h"

namespace heed {
namespace {

// All of the layers but their attention.
Decoder ReadLayers(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  Decoder decoder = ReadLfm2Frame(checkpoint, Size(fields, "intermediate_size", 12288));
  decoder.head_dim = Size(fields, "head_dim", std::max<int64_t>(1, decoder.width / decoder.heads));
  decoder.SetLayers({{"type", "softmax"}});
  decoder.config()["norm"] = fields.Bool("use_sandwich_norm", true) ? "sandwich" : "pre";
  decoder.AddModules("norm1_post", "post_operator_norm");
  decoder.AddModules("norm2_post", "post_ffn_norm");
  return decoder;
}

// A layer of attention, of the kind that layer_types says.
void SetAttention(Checkpoint& checkpoint, int64_t i, const std::string& kind, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  Json attention = {{"type", "softmax"},
                    {"num_key_value_heads", decoder.key_value_heads},
                    {"head_dim", decoder.head_dim},
                    {"qk_norm", {{"type", "rms"}, {"over", "head"}}}};
  const Json rope = ReadRope(checkpoint, {.theta = 1e6}, decoder.head_dim, kind);
  if (!rope.is_null()) attention["rope"] = rope;
  const int64_t window = WindowOf(checkpoint, 0);
  if (kind == "sliding_attention" && window > 0) attention["window"] = window;
  if (fields.Bool("use_attention_gate", true)) attention["output_gate"] = "head";
  decoder.attention(i) = std::move(attention);
  const std::string to = Cat("layers.", i, ".attention."), of = Cat(decoder.layer_prefix, i, ".self_attn.");
  for (const char* name : {"q", "k", "v", "o", "gate"})
    decoder.tensors().AddModule(to + name, Cat(of, name, "_proj"));
  for (const char* name : {"q_norm", "k_norm"}) decoder.tensors().AddModule(to + name, of + name);
}

}  // namespace

absl::StatusOr<NativeModel> ReadLfm3Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadLayers(checkpoint);
  JsonFields& fields = checkpoint.fields();
  const int64_t kernel = Size(fields, "conv_L_cache", 3, 64);
  const Json& types = fields.Raw("layer_types");
  const bool told = types.is_array() && std::ssize(types) == decoder.layers;
  if (!told) fields.Fail(Cat("layer_types: ", Shown(types), " is no list of ", decoder.layers, " layers"));
  for (int64_t i = 0; i < decoder.layers && told; ++i) {
    const std::string kind = types[i].is_string() ? types[i].get<std::string>() : "";
    if (kind == "conv") {
      decoder.attention(i) = {{"type", "short_convolution"}, {"kernel", kernel}};
      AddShortConvolution(Cat("layers.", i, ".attention."), Cat(decoder.layer_prefix, i, ".conv."), kernel,
                          decoder.tensors());
    } else if (kind == "full_attention" || kind == "sliding_attention") {
      SetAttention(checkpoint, i, kind, decoder);
    } else {
      fields.Fail(Cat("layer_types[", i, "]: ", Shown(types[i]),
                      " is not served; conv, full_attention and sliding_attention are"));
    }
  }
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

}  // namespace heed
