// "apertus" (Swiss AI 2025): Llama's layers with norms of each head's queries and keys, and feed-forwards
// without a gate, whose activation xIELU has numbers of its own in each layer (mlp.act_fn). Where config.json
// says nothing of scaling, heads are turned by "llama3" with a factor of 8.
#include "engine/base/status.h"
#include "engine/families/llama.h"

namespace heed {
namespace {

constexpr double kTheta = 12e6;

Json RopeOfClass(double theta) {
  return {{"theta", theta},
          {"layout", "half"},
          {"scaling",
           {{"type", "llama3"},
            {"factor", 8.0},
            {"low_freq_factor", 1.0},
            {"high_freq_factor", 4.0},
            {"original_max_position_embeddings", 8192}}}};
}

void SetXielu(Checkpoint& checkpoint, Decoder& decoder) {
  checkpoint.Require("hidden_act", "xielu");
  for (int64_t i = 0; i < decoder.layers; ++i) {
    decoder.layer(i)["ffn"] = {{"type", "dense"}, {"xielu", true}};
    for (const char* number : {"alpha_p", "alpha_n", "beta", "eps"}) {
      decoder.tensors().Add(Cat("layers.", i, ".ffn.xielu.", number),
                            ViewedTensor(Cat(decoder.layer_prefix, i, ".mlp.act_fn.", number)).Shaped({1}));
    }
  }
}

}  // namespace

absl::StatusOr<NativeModel> ReadApertusFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 131072,
                                                  .intermediate_size = 14336,
                                                  .tokens = {.bos = 1, .eos = 2, .pad = 3},
                                                  .act_key = "",
                                                  .gated = false,
                                                  .eps = 1e-5,
                                                  .rope = {.theta = kTheta}});
  const Json& config = checkpoint.config();
  if (!config.contains("rope_scaling") && !config.contains("rope_parameters"))
    decoder.SetAttention("rope", RopeOfClass(checkpoint.fields().Number("rope_theta", kTheta, 1, 1e12)));
  AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  decoder.AddModules("norm1", "attention_layernorm");
  decoder.AddModules("norm2", "feedforward_layernorm");
  SetXielu(checkpoint, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
