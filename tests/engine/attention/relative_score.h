// A score with Transformer-XL's relative positions, written out in double after the paper (Dai et al. 2019).
#ifndef HEED_TESTS_ENGINE_ATTENTION_RELATIVE_SCORE_H_
#define HEED_TESTS_ENGINE_ATTENTION_RELATIVE_SCORE_H_

#include <algorithm>
#include <cmath>

#include "tests/engine/attention/layer.h"

namespace heed {

// Column c of Wr R_t.
inline double RelativePosition(const Layer& layer, int64_t distance, int64_t c) {
  const int64_t width = layer.example().width,
                clamp = layer.options().value("clamp_length", int64_t{1} << 30);
  const auto t = static_cast<double>(std::min(distance, clamp));
  const float* weights = layer.tensor("r.weight") + c * width;
  double sum = 0;
  for (int64_t i = 0; i < width / 2; ++i) {
    const double angle = t * std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(width));
    sum += weights[i] * std::sin(angle) + weights[width / 2 + i] * std::cos(angle);
  }
  return sum;
}

// ((q_i + u) . k + (q_i + v) . (Wr R_t)) / sqrt(head_dim), with k the columns key(c) that are the head's.
template <typename Key>
double RelativeScore(const Layer& layer, const Passage& passage, int64_t i, int head, Key key,
                     int64_t distance) {
  const int64_t dim = layer.example().width / layer.example().num_heads;
  double score = 0;
  for (int64_t c = head * dim; c < (head + 1) * dim; ++c) {
    const double q = passage.product(0).At(i, c);
    score += (q + layer.tensor("pos_bias_u")[c]) * key(c) +
             (q + layer.tensor("pos_bias_v")[c]) * RelativePosition(layer, distance, c);
  }
  return score / std::sqrt(static_cast<double>(dim));
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_ATTENTION_RELATIVE_SCORE_H_
