// Layers whose feed-forward is a mixture of experts: what families that have them share.
#ifndef HEED_ENGINE_FAMILIES_MIXTURE_H_
#define HEED_ENGINE_FAMILIES_MIXTURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/families/decoder.h"

namespace heed {

// One layer's mixture, and how its modules are called below the layer's name.
struct Mixture {
  // The native "ffn": experts, top_k, intermediate_size and what else the family says ("type" is set here).
  Json options;
  std::string module = "mlp";   // of the router and the experts
  std::string router = "gate";  // below the module
  std::string correction;       // below the module; empty: there is none
  std::string gate = "gate_proj", up = "up_proj", down = "down_proj";  // of an expert, and of the shared one
  std::string shared;               // below the module; empty: there is none
  std::string shared_gate;          // the same
  std::optional<int64_t> number{};  // of the layer in the file, where it is another than the native one's
};

// Makes the i-th layer's feed-forward a mixture. Experts lie apart (MODULE.experts.E.GATE.weight) or, as
// transformers 5 may write them, in one tensor each: MODULE.experts.gate_up_proj [experts, 2 inner, width]
// and .down_proj [experts, width, inner].
void SetMixture(Checkpoint& checkpoint, int64_t i, const Mixture& mixture, Decoder& decoder);

// Which layers are sparse: every decoder_sparse_step-th but those of mlp_only_layers (Qwen's keys).
std::vector<bool> SparseLayers(Checkpoint& checkpoint, int64_t layers);

// Which layers have experts: those that mlp_layer_types calls "sparse"; without it all but the first, as many
// as `key` says (`dense`).
std::vector<bool> LayersWithExperts(Checkpoint& checkpoint, int64_t layers, int64_t dense,
                                    std::string_view key = "first_k_dense_replace");
// Makes those layers' feed-forwards mixtures.
void SetMixtures(Checkpoint& checkpoint, const std::vector<bool>& sparse, const Mixture& mixture,
                 Decoder& decoder);

// An expert of one tensor for all: its rows, in parts of these sizes, of which one.
ViewedTensor OfExpert(const std::string& tensor, int64_t expert, const std::vector<int64_t>& sizes, int part);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_MIXTURE_H_
