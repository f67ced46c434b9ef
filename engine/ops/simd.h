// To be included before Highway: which vector targets are compiled, and HEED_MAX_SIMD=avx2|avx512 in the
// environment, which holds every kernel back to older vectors, for tests.
#ifndef HEED_ENGINE_OPS_SIMD_H_
#define HEED_ENGINE_OPS_SIMD_H_

// oneDNN's micro-kernels need AVX2, so the older targets would never run (SSE2 is the compiler's own baseline
// and has to stay); AVX3_DL adds nothing that rows of floats use.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

namespace heed {

// Called by the initialiser below, so before the first kernel of any file that includes this.
bool LimitSimd();
inline const bool simd_limited = LimitSimd();

}  // namespace heed

#endif  // HEED_ENGINE_OPS_SIMD_H_
