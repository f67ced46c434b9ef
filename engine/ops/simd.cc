#include "engine/ops/simd.h"

#include <cstdlib>
#include <string_view>

#include "absl/log/log.h"
#include "hwy/targets.h"

namespace heed {
namespace {

// Targets are bits, better ones lower.
int64_t BetterThan(int64_t target) { return target - 1; }

}  // namespace

bool LimitSimd() {
  const char* limit = std::getenv("HEED_MAX_SIMD");
  if (limit == nullptr || *limit == '\0') return false;
  const std::string_view text = limit;
  if (text != "avx2" && text != "avx512")
    LOG(FATAL) << "HEED_MAX_SIMD is '" << text << "', not avx2 or avx512";
  hwy::DisableTargets(BetterThan(text == "avx2" ? HWY_AVX2 : HWY_AVX3));
  return true;
}

}  // namespace heed
