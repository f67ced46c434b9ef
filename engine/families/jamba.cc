// "jamba" (AI21 2024): the first Mamba's mixers, which norm dt, B and C, in all layers but every
// attn_layer_period-th from attn_layer_offset on, whose attention is not turned; of the feed-forwards every
// expert_layer_period-th from expert_layer_offset on has experts, whose scores are not divided by their sum.
// Names: Bamba's, and mamba.{x_proj, dt_proj, dt_layernorm, b_layernorm, c_layernorm}, feed_forward.{router,
// experts.E}.
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/families/llama.h"
#include "engine/families/mamba.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

Json ReadMixer(JsonFields& fields, const Decoder& decoder) {
  const Json& rank = fields.Raw("mamba_dt_rank");
  const bool automatic = rank.is_null() || rank == "auto";
  return {{"type", "mamba"},
          {"inner_size", Size(fields, "mamba_expand", 2, 64) * decoder.width},
          {"state_size", Size(fields, "mamba_d_state", 16)},
          {"time_step_rank", automatic ? (decoder.width + 15) / 16 : Size(fields, "mamba_dt_rank", 1)},
          {"kernel", Size(fields, "mamba_d_conv", 4, 64)},
          {"norm_eps", decoder.model.config["layer_norm_eps"]}};
}

void SetMixerWithNorms(int64_t i, const Json& mixer, Decoder& decoder) {
  SetMixer(i, mixer, "mamba", decoder);
  const std::string of = Cat(decoder.layer_prefix, i, ".mamba."), to = Cat("layers.", i, ".attention.");
  decoder.tensors().AddModule(to + "t_norm", of + "dt_layernorm");
  decoder.tensors().AddModule(to + "b_norm", of + "b_layernorm");
  decoder.tensors().AddModule(to + "c_norm", of + "c_layernorm");
}

}  // namespace

absl::StatusOr<NativeModel> ReadJambaFamily(Checkpoint& checkpoint) {
  checkpoint.Require("sliding_window", nullptr);
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 65536,
                                                  .intermediate_size = 14336,
                                                  .num_key_value_heads = 8,
                                                  .tokens = {.bos = 1, .eos = 2, .pad = 0}});
  JsonFields& fields = checkpoint.fields();
  const int64_t period = fields.Int("attn_layer_period", 8, 1, kMostLayers),
                offset = fields.Int("attn_layer_offset", 4, 0, kMostLayers),
                experts = Size(fields, "num_experts", 16),
                sparse_period = fields.Int("expert_layer_period", 2, 1, kMostLayers),
                sparse_offset = fields.Int("expert_layer_offset", 1, 0, kMostLayers);
  const Mixture mixture{.options = {{"experts", experts},
                                    {"top_k", Size(fields, "num_experts_per_tok", 2)},
                                    {"normalize", false}},
                        .module = "feed_forward",
                        .router = "router"};
  const Json mixer = ReadMixer(fields, decoder);
  SetFeedForwardNames(checkpoint, decoder);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    decoder.attention(i).erase("rope");
    if (i % period != offset) SetMixerWithNorms(i, mixer, decoder);
    if (experts > 1 && i % sparse_period == sparse_offset) SetMixture(checkpoint, i, mixture, decoder);
  }
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
