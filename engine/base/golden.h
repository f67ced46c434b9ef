// What comparing with golden cases found: of models, tokenizers and sampling alike.
#ifndef HEED_ENGINE_BASE_GOLDEN_H_
#define HEED_ENGINE_BASE_GOLDEN_H_

#include <string>

namespace heed {

// How one case came out.
struct GoldenResult {
  std::string name;     // "c0"
  int ways = 0;         // that were tried
  double largest = 0;   // the largest difference from the expected output, over all ways
  double rms = 0;       // the largest root mean square of the differences, as a share of the output's
  double bound = 0;     // of `rms`, where it is not f32's
  std::string problem;  // empty: within the bound every way; else the first way that was not, and by how much
};

}  // namespace heed

#endif  // HEED_ENGINE_BASE_GOLDEN_H_
