// The option "rope": rotary positions (Su et al. 2021), and how their frequencies are scaled for texts that
// are longer than those that a model was first trained on.
#ifndef HEED_ENGINE_ATTENTION_ROPE_H_
#define HEED_ENGINE_ATTENTION_ROPE_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/ops/rows.h"

namespace heed {

// None, if there is no such option.
//   theta (10000), dims (head_dim)        pair t of the first dims numbers turns by f = theta^(-2t/dims) a
//                                         position
//   layout "half" | "interleaved"         pair t is (t, t + dims/2), or (2t, 2t + 1)
//   scaling (none)                        as transformers 4.57 computes it, for lengths of the text L =
//                                         original_max_position_embeddings, of wavelengths w = 2 pi / f:
//     {type "linear", factor}             f / factor (Chen et al. 2023)
//     {type "llama3", factor, low_freq_factor, high_freq_factor, original_max_position_embeddings}
//                                         f, where w < L / high; f / factor, where w > L / low; between them
//                                         s f + (1 - s) f / factor with s = (L / w - low) / (high - low)
//     {type "yarn", factor, original_max_position_embeddings, beta_fast (32), beta_slow (1), mscale,
//      mscale_all_dim, attention_factor, truncate (true)}  (Peng et al. 2023)
//                                         r f / factor + (1 - r) f, where r rises from 0 at the pair that
//                                         turns beta_fast times in L to 1 at the one that turns beta_slow
//                                         times, these rounded down and up if truncate; and rotated queries
//                                         and keys are multiplied by attention_factor: if it is not given,
//                                         m(mscale) / m(mscale_all_dim) where both are given, else m(1), with
//                                         m(x) = 0.1 x ln(factor) + 1
//   {type "proportional", share}          f for the first share of pairs, 0 for the others
//   {type "longrope", factors, attention_factor (1)}   f / factors[t] (Ding et al. 2024); rotated queries and
//                                         keys are multiplied by attention_factor
absl::StatusOr<std::optional<Rotary>> ReadRotary(JsonFields& fields, int64_t head_dim);

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_ROPE_H_
