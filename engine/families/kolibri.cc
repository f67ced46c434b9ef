// "kolibri1" (2026): Llama's layers, norms before and after each sublayer (post_attn_norm, post_ffn_norm),
// norms of each head's queries and keys, in every layer a window and experts: chosen by their logits and a
// correction (moe.router.expert_bias), they count their sigmoids; one expert for all rows. How layers without
// a window are turned no file shows: they are not served.
#include "engine/base/status.h"
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

void SetKolibriAttention(Checkpoint& checkpoint, Decoder& decoder) {
  AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  const std::vector<bool> sliding = SlidingLayers(checkpoint, decoder.layers, [](int64_t) { return true; });
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (!sliding[i])
      checkpoint.fields().Fail(Cat("layer_types[", i, "]: \"full_attention\" is not served of this family"));
  }
  SetWindows(sliding, Size(checkpoint.fields(), "sliding_window", 0), decoder);
}

void SetKolibriNorms(Decoder& decoder) {
  decoder.config()["norm"] = "sandwich";
  decoder.AddModules("norm1_post", "post_attn_norm");
  decoder.AddModules("norm2_post", "post_ffn_norm");
}

void SetKolibriExperts(Checkpoint& checkpoint, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  const Mixture mixture{.options = {{"experts", Size(fields, "num_local_experts", 0)},
                                    {"top_k", Size(fields, "num_experts_per_tok", 0)},
                                    {"intermediate_size", Size(fields, "moe_intermediate_size", 0)},
                                    {"score", "sigmoid"},
                                    {"correction", true},
                                    {"correction_of", "logits"},
                                    {"normalize", fields.Bool("norm_topk_prob", false)},
                                    {"shared_size", Size(fields, "shared_expert_intermediate_size", 0)}},
                        .shared = "shared_experts"};
  for (int64_t i = 0; i < decoder.layers; ++i) {
    SetMixture(checkpoint, i, mixture, decoder);
    decoder.tensors().Add(Cat("layers.", i, ".ffn.router.correction"),
                          Cat(decoder.layer_prefix, i, ".moe.router.expert_bias"));
  }
}

}  // namespace

absl::StatusOr<NativeModel> ReadKolibri1Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 0,
                                                  .hidden_size = 0,
                                                  .intermediate_size = 0,
                                                  .num_hidden_layers = 0,
                                                  .num_attention_heads = 0});
  SetKolibriAttention(checkpoint, decoder);
  SetKolibriNorms(decoder);
  SetKolibriExperts(checkpoint, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
