// "nanochat" (Karpathy 2025): Llama's attention, norms without weights, one of the embedding too, and of
// queries and keys once they are turned; a feed-forward without a gate, mlp.{fc1, fc2}; capped logits. Heads
// are turned the other way round: the same as ours with the halves of each head's queries and keys exchanged.
#include "engine/base/status.h"
#include "engine/families/llama.h"

namespace heed {
namespace {

// Rows of `heads` heads, the second half of each before the first.
ViewedTensor HalvesExchanged(const ViewedTensor& rows, int64_t heads, int64_t head_dim) {
  const int64_t half = head_dim / 2;
  std::vector<ViewedTensor> parts;
  for (int64_t head = 0; head < heads; ++head) {
    parts.push_back(rows.Rows(head * head_dim + half, half));
    parts.push_back(rows.Rows(head * head_dim, half));
  }
  return ViewedTensor::Joined(parts);
}

}  // namespace

absl::StatusOr<NativeModel> ReadNanochatFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 50304,
                                                  .hidden_size = 768,
                                                  .intermediate_size = 8192,
                                                  .num_hidden_layers = 12,
                                                  .num_attention_heads = 6,
                                                  .tokens = {.bos = 0, .eos = 1, .pad = 1},
                                                  .act = "relu2",
                                                  .gated = false});
  Json& config = decoder.config();
  config["norm_weight"] = false;
  config["embedding_norm"] = true;
  decoder.SetAttention("qk_norm",
                       {{"type", "rms"}, {"over", "head"}, {"after_rope", true}, {"weight", false}});
  decoder.AddModules("attention.q", "self_attn.q_proj", [&](const ViewedTensor& rows) {
    return HalvesExchanged(rows, decoder.heads, decoder.head_dim);
  });
  decoder.AddModules("attention.k", "self_attn.k_proj", [&](const ViewedTensor& rows) {
    return HalvesExchanged(rows, decoder.key_value_heads, decoder.head_dim);
  });
  decoder.AddModules("ffn.up", "mlp.fc1");
  decoder.AddModules("ffn.down", "mlp.fc2");
  const auto cap = NumberOrNone(checkpoint, "final_logit_softcapping", 15, 1e-3, 1e6);
  if (cap && checkpoint.task() == "CausalLM") config["logits_soft_cap"] = *cap;
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
