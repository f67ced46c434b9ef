// To be included before Highway: which vector targets are compiled, and HEED_MAX_SIMD=avx2|avx512 in the
// environment, which holds every kernel back to older vectors, for tests.
#ifndef HEED_ENGINE_OPS_SIMD_H_
#define HEED_ENGINE_OPS_SIMD_H_

// oneDNN's micro-kernels need AVX2, so older targets would never run; AVX3_DL adds nothing that rows of
// floats use. Sanitizers see enough in one target of each width: more are slow to compile.
#define HWY_BASELINE_TARGETS HWY_AVX2
#ifdef HEED_SANITIZED
#define HWY_DISABLED_TARGETS (HWY_AVX3 | HWY_AVX3_DL | HWY_AVX3_SPR)
#else
#define HWY_DISABLED_TARGETS HWY_AVX3_DL
#endif

namespace heed {

// Called by the initialiser below, so before the first kernel of any file that includes this.
bool LimitSimd();
inline const bool simd_limited = LimitSimd();

}  // namespace heed

#endif  // HEED_ENGINE_OPS_SIMD_H_
