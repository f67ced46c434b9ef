// The attentions that `heed_bench variants` compares: each with the options of its paper, as near as one
// width and lengths of 512 to 65,536 allow.
#ifndef HEED_TESTS_BENCH_VARIANTS_H_
#define HEED_TESTS_BENCH_VARIANTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/json.h"

namespace heed {

struct Variant {
  std::string name;
  Json options;                      // the layer's "attention"
  std::vector<std::string> roots{};  // options that are the root of the text's length, as the paper has them

  Json At(int64_t n) const;  // options for texts of n tokens
};

// Measured in turns, and drawn together: few enough to tell apart.
struct VariantFamily {
  std::string name;
  bool causal = true;  // decoders; else encoders
  std::vector<Variant> variants;
};

// The longest text whose reading is measured; none of the options allows less, decoders have room for steps.
inline constexpr int64_t kLongestText = 65536;

// kLongestText, or what HEED_LONGEST=n allows: a short run shows that all works.
int64_t LongestText();

std::vector<VariantFamily> VariantFamilies();

}  // namespace heed

#endif  // HEED_TESTS_BENCH_VARIANTS_H_
