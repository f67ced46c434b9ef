// The figures that papers have published of their attentions, and the shapes to measure them in: how many
// times faster, or smaller, than full attention. ../shared/reference/variants.md, Part VI, has their sources.
#ifndef HEED_TESTS_BENCH_PUBLISHED_H_
#define HEED_TESTS_BENCH_PUBLISHED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/json.h"
#include "tests/bench/shapes.h"

namespace heed {

struct PublishedLine {
  std::string id;
  std::string variant;
  Json options;
  std::vector<double> times;       // at the study's lengths; 0: not published
  std::vector<double> memories{};  // likewise, where the paper has them
};

// A table of a paper.
struct PublishedStudy {
  std::string source;
  StackShape shape;
  int batch = 1;
  std::vector<int64_t> lengths;
  std::vector<PublishedLine> lines;
};

std::vector<PublishedStudy> PublishedStudies();

}  // namespace heed

#endif  // HEED_TESTS_BENCH_PUBLISHED_H_
