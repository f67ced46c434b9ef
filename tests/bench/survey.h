// What `heed_bench survey` measures: every attention and stack of the survey "Efficient Transformers" (Tay et
// al. 2022) at one shape for each kind of input, with what its table 1, or the paper, says of it.
#ifndef HEED_TESTS_BENCH_SURVEY_H_
#define HEED_TESTS_BENCH_SURVEY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/json.h"

namespace heed {

// A model, and what it is given in a pass: `works` inputs of `rows` rows each.
struct SurveyModel {
  Json config;
  int64_t rows = 0;
  int64_t works = 1;
};

struct SurveyLine {
  std::string name;     // the attention's or the architecture's
  std::string paper;    // authors and year
  std::string classes;  // of the survey's taxonomy: FP fixed patterns, LP learnable patterns, M memory, LR
                        // low rank, KR kernels, RC recurrence, DS downsampling; "-": none
  std::string claimed;  // what it costs, by the survey's table or the paper
  std::function<SurveyModel(int64_t n)> at;  // for inputs of n
};

// Lines that are compared with each other; the first is what the others are ratios to.
struct SurveyModality {
  std::string name;
  std::string shape;             // what the models have in common
  std::string counted;           // what n counts
  std::vector<int64_t> lengths;  // ascending; figures are those of the last
  std::vector<SurveyLine> lines;
};

std::vector<SurveyModality> SurveyModalities();

}  // namespace heed

#endif  // HEED_TESTS_BENCH_SURVEY_H_
