// `relative_memory` against its definition, written out in double after the paper.
#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

AttentionExample Memory(const std::string& options) {
  return {"relative_memory", options, Place::kDecoder, 32, 4, WithRelativePositions(32, 4)};
}

struct Definition {
  explicit Definition(const Layer& layer)
      : layer(layer), width(layer.example().width), heads(layer.example().num_heads), dim(width / heads) {
    memory = layer.options()["memory"];
    clamp = layer.options().value("clamp_length", memory);
  }

  // Column c of Wr R_t.
  double Relative(int64_t distance, int64_t c) const {
    const double t = static_cast<double>(std::min(distance, clamp));
    double sum = 0;
    for (int64_t i = 0; i < width / 2; ++i) {
      const double angle = t * std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(width));
      const float* weights = layer.tensor("r.weight") + c * width;
      sum += weights[i] * std::sin(angle) + weights[width / 2 + i] * std::cos(angle);
    }
    return sum;
  }

  std::vector<double> Row(const Passage& passage, int64_t i, int head) const {
    std::vector<double> result(dim);
    double sum = 0;
    for (int64_t j = std::max<int64_t>(0, i - memory + 1); j <= i; ++j) {
      double score = 0;
      for (int64_t c = head * dim; c < (head + 1) * dim; ++c) {
        const double q = passage.product(0).At(i, c);
        score += (q + layer.tensor("pos_bias_u")[c]) * passage.product(1).At(j, c) +
                 (q + layer.tensor("pos_bias_v")[c]) * Relative(i - j, c);
      }
      const double p = std::exp(score / std::sqrt(static_cast<double>(dim)));
      sum += p;
      for (int64_t t = 0; t < dim; ++t) result[t] += p * passage.product(2).At(j, head * dim + t);
    }
    for (double& x : result) x /= sum;
    return result;
  }

  const Layer& layer;
  int64_t width;
  int heads;
  int64_t dim, memory, clamp;
};

TEST(RelativeMemory, IsTheDefinition) {
  for (const AttentionExample& example : AttentionExamples()) {
    if (example.type != "relative_memory") continue;
    const Layer layer(example, Precision::kF32);
    const Definition definition(layer);
    const Passage passage = Whole(layer, 420);
    for (int64_t i : {0, 1, 8, 9, 10, 16, 17, 127, 128, 139, 140, 141, 270, 419}) {
      for (int head = 0; head < definition.heads; ++head) {
        const std::vector<double> expected = definition.Row(passage, i, head);
        for (int64_t t = 0; t < definition.dim; ++t) {
          ASSERT_NEAR(passage.out().At(i, head * definition.dim + t), expected[t], 5e-5)
              << example.options << " row " << i << " head " << head;
        }
      }
    }
  }
}

TEST(RelativeMemory, TheStateStopsGrowing) {
  const Layer layer(Memory(R"({"memory": 130})"), Precision::kF32);
  EXPECT_EQ(layer.attention().StateBytes(300), layer.attention().StateBytes(1 << 20));
}

TEST(RelativeMemory, RefusesWhatCannotBe) {
  const std::vector<Refusal> refusals = {
      {Place::kDecoder, "{}", {"layers[0].attention", "memory"}},
      {Place::kDecoder, R"({"memory": 0})", {"memory", "0", "below 1"}},
      {Place::kDecoder, R"({"memory": 8, "clamp_length": 0})", {"clamp_length", "0"}},
      {Place::kDecoder, R"({"memory": 8, "same_length": false})", {"same_length", "segments end"}},
      {Place::kEncoder, R"({"memory": 8})", {"decoders only"}},
      {Place::kCross, R"({"memory": 8})", {"decoders only"}},
  };
  const Layer layer(Memory(R"({"memory": 8})"), Precision::kF32);
  const auto weights = Weights::Of({});
  ExpectRefused(layer, WeightScope(*weights), refusals);
}

}  // namespace
}  // namespace heed
