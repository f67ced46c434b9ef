// What the families whose layers are, or have among them, a state-space mixer have in common: Mamba, Falcon
// Mamba, Mamba 2 and their hybrids with attention.
#ifndef HEED_ENGINE_FAMILIES_MAMBA_H_
#define HEED_ENGINE_FAMILIES_MAMBA_H_

#include <cstdint>
#include <string>

#include "engine/families/decoder.h"

namespace heed {

// A decoder of mixers alone, in the words of config.json.
struct MambaShape {
  int64_t hidden_size = 0, num_hidden_layers = 0, vocab_size = 0, num_heads = 1;
  TokenIds tokens{};
  bool tied = false;  // the head, where config.json does not say it
  Json attention{};   // native, of all layers
};

// Configuration and tensors of such a model, the mixers' own too.
absl::StatusOr<NativeModel> ReadMambaModel(Checkpoint& checkpoint, const MambaShape& shape);

// The tensors of one mixer, of the first Mamba or the second: `to` the native attention, `of` the module,
// both with a dot at the end; `kernel`: taps of its convolution.
void AddMambaMixer(const std::string& to, const std::string& of, int64_t kernel, TensorView& tensors);

// Layers of attention among which some are the second Mamba's mixers, by the keys mamba_*: how these are.
Json ReadMamba2Layer(Checkpoint& checkpoint, const Decoder& decoder);
// Makes the i-th layer's attention such a mixer, of the layer's `module`.
void SetMixer(int64_t i, const Json& attention, const std::string& module, Decoder& decoder);

// Bamba's and Jamba's names where Llama has others: feed_forward.{gate_proj, up_proj, down_proj},
// pre_ff_layernorm, final_layernorm.
void SetFeedForwardNames(Checkpoint& checkpoint, Decoder& decoder);

// time_step_limit: the least and the most time step of a second Mamba's mixer, `attention`.
void ReadTimeStepLimit(JsonFields& fields, Json& attention);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_MAMBA_H_
