// How PackedWeights lie in memory; for gemm.cc alone.
//
// Panels of 64 outputs one after another, the last one rounded up to 16. A panel is what MicroKernel reads as
// B: [in / group, outputs, group] with group 1 in f32, 2 in bf16, 4 in int8, zeros where `in` is rounded up.
// What belongs to single outputs (bias, scales, offsets) has 64 places for each panel. Gated: gate and up
// panels alternate.
#ifndef HEED_ENGINE_OPS_PACKED_WEIGHTS_H_
#define HEED_ENGINE_OPS_PACKED_WEIGHTS_H_

#include <algorithm>
#include <cstdint>

#include "engine/base/round.h"
#include "engine/ops/gemm.h"

namespace heed {

inline constexpr int64_t kPanel = 64;

// The type of A in a precision's products.
constexpr DType InputType(Precision precision) {
  return precision == Precision::kInt8   ? DType::kU8
         : precision == Precision::kBf16 ? DType::kBf16
                                         : DType::kF32;
}

// K as packed. In int8 whole tiles of AMX: quantized rows are that long.
constexpr int64_t PackedIn(int64_t in, Precision precision) {
  return precision == Precision::kInt8   ? RoundUp(in, 64)
         : precision == Precision::kBf16 ? RoundUp(in, 2)
                                         : in;
}

struct GemmAccess {
  const PackedWeights& w;

  int64_t panels() const { return (w.out() + kPanel - 1) / kPanel; }
  int64_t columns(int64_t panel) const { return std::min(kPanel, w.out() - panel * kPanel); }  // real ones
  int64_t width(int64_t panel) const { return RoundUp(columns(panel), 16); }                   // packed ones

  // Of output panel `panel`, and with up = 1 its partner in a gated product.
  const std::byte* weights(int64_t panel, int up) const {
    const int64_t k = PackedIn(w.in(), w.precision()) * SizeOf(InputType(w.precision()));
    const int64_t before = w.gated() ? 2 * panel * kPanel + up * width(panel) : panel * kPanel;
    return w.panels_.as<std::byte>() + before * k;
  }
  const float* bias(int64_t panel, int up) const { return w.bias_.as<float>() + Place(panel, up); }
  const float* scales(int64_t panel, int up) const { return w.scales_.as<float>() + Place(panel, up); }
  const int32_t* offsets(int64_t panel, int up) const {
    return w.offsets128_.as<int32_t>() + Place(panel, up);
  }

 private:
  int64_t Place(int64_t panel, int up) const { return (w.gated() ? 2 * panel + up : panel) * kPanel; }
};

}  // namespace heed

#endif  // HEED_ENGINE_OPS_PACKED_WEIGHTS_H_
