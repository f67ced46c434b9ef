// Decoders with the layers of Llama and their names: what the families that share them have in common.
#ifndef HEED_ENGINE_FAMILIES_LLAMA_H_
#define HEED_ENGINE_FAMILIES_LLAMA_H_

#include <cstdint>
#include <string_view>

#include "engine/families/decoder.h"
#include "engine/families/rope.h"

namespace heed {

// What holds where config.json does not say it, in the words of its keys; and how they are called.
struct LlamaDefaults {
  int64_t vocab_size = 32000, hidden_size = 4096, intermediate_size = 11008;
  int64_t num_hidden_layers = 32, num_attention_heads = 32;
  int64_t num_key_value_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;             // 0: hidden_size / heads
  TokenIds tokens{};
  std::string_view act_key = "hidden_act", act = "silu";  // no key: hidden_act is not set
  bool gated = true;                                      // up times the activation of gate
  std::string_view norm_type = "rms", eps_key = "rms_norm_eps";
  double eps = 1e-6;
  RopeDefaults rope{};
  std::string_view base = "model.";  // what names begin with, but in a base model
};

// Keys of the shape, and the tensors of embedding, layers and last norm. No head yet.
Decoder ReadLlamaDecoder(Checkpoint& checkpoint, const LlamaDefaults& defaults);

// Norms of queries and keys, head by head or over all of them: of every layer's modules `q` and `k`.
void AddQueryKeyNorms(const Json& qk_norm, const std::string& q, const std::string& k, Decoder& decoder);
// Norms of what attention and feed-forward give, in place of those before them.
void SetNormsAfter(Decoder& decoder);
// Scores that grow with the position, where config.json says so (llama_4_scaling_beta).
void SetPositionScale(Checkpoint& checkpoint, Decoder& decoder);
// gate_up_proj: the gate's rows, then those it is for.
void AddFusedGate(Decoder& decoder);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_LLAMA_H_
