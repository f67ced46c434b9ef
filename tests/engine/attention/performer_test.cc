// The performer against its definition, in double and with nothing held back, where that fits into a double.
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

using Vector = std::vector<double>;

AttentionExample Example(const std::string& options, Place place = Place::kDecoder) {
  return {"performer", options, place, 32, 4, WithRandomFeatures(32, 4, 24)};
}

struct Definition {
  explicit Definition(const Layer& layer) : layer(layer), softmax(layer.options()["kernel"] == "softmax") {
    eps = layer.options().value("eps", softmax ? 0.0 : 1e-3);
  }

  Vector Features(const OwnedRows& rows, int64_t r, int head, double times) const {
    Vector phi(24);
    double square = 0;
    for (int64_t t = 0; t < 8; ++t) square += std::pow(times * rows.At(r, head * 8 + t), 2) / std::sqrt(8.0);
    for (int64_t f = 0; f < 24; ++f) {
      double product = 0;
      for (int64_t t = 0; t < 8; ++t)
        product +=
            layer.tensor("features")[f * 8 + t] * times * rows.At(r, head * 8 + t) / std::pow(8.0, 0.25);
      phi[f] = (softmax ? std::exp(product - square / 2) : std::max(product, 0.0)) + eps;
    }
    return phi;
  }

  // Queries and keys as they would be `times` as large.
  Vector Row(const Passage& passage, int64_t i, int head, double times = 1) const {
    const Vector q = Features(passage.product(0), i, head, times);
    Vector result(8);
    double sum = 0;
    for (int64_t j = 0; j < passage.source(); ++j) {
      if (layer.causal() && j > i) continue;
      const Vector k = Features(passage.product(1), j, head, times);
      double weight = 0;
      for (int64_t f = 0; f < 24; ++f) weight += q[f] * k[f];
      sum += weight;
      for (int64_t t = 0; t < 8; ++t) result[t] += weight * passage.product(2).At(j, head * 8 + t);
    }
    for (double& x : result) x /= sum;
    return result;
  }

  const Layer& layer;
  bool softmax;
  double eps;
};

TEST(Performer, IsTheDefinition) {
  for (Place place : {Place::kDecoder, Place::kEncoder, Place::kCross}) {
    for (const char* options : {R"({"kernel": "softmax", "num_features": 24})",
                                R"({"kernel": "softmax", "num_features": 24, "eps": 0.01})",
                                R"({"kernel": "relu", "num_features": 24})"}) {
      const Layer layer(Example(options, place), Precision::kF32);
      const Definition definition(layer);
      const Passage passage = Whole(layer, 300);
      for (int64_t i : {0, 1, 63, 64, 127, 128, 200, 299}) {
        for (int head = 0; head < 4; ++head) {
          const Vector expected = definition.Row(passage, i, head);
          for (int64_t t = 0; t < 8; ++t)
            ASSERT_NEAR(passage.out().At(i, head * 8 + t), expected[t], 5e-5) << options << " row " << i;
        }
      }
    }
  }
}

// Exponents of some hundreds, where exp() of a float ends: later keys outweigh all before them by e^100 and
// more.
TEST(Performer, StaysInTheNumbersRange) {
  const Layer layer(Example(R"({"kernel": "softmax", "num_features": 24})"), Precision::kF32);
  const Definition definition(layer);
  Passage passage(layer, 300), steps(layer, 300);
  for (Passage* one : {&passage, &steps}) {
    for (int p : {0, 1}) {
      for (int64_t r = 0; r < 300; ++r) {
        for (int64_t c = 0; c < 32; ++c)
          one->product(p).Set(r, c,
                              one->product(p).At(r, c) * (p == 1 ? 0.02f * static_cast<float>(r) : 1.0f));
      }
    }
  }
  passage.Extend(*layer.attention().Start(), 0, 300);
  steps.ExtendBy(*layer.attention().Start(), 0, 300, 1);
  for (int64_t i : {0, 64, 130, 299}) {
    for (int head = 0; head < 4; ++head) {
      const Vector expected = definition.Row(passage, i, head);
      for (int64_t t = 0; t < 8; ++t) {
        EXPECT_NEAR(passage.out().At(i, head * 8 + t), expected[t], 1e-3) << "row " << i;
        EXPECT_NEAR(steps.out().At(i, head * 8 + t), expected[t], 1e-3) << "row " << i;
      }
    }
  }
}

// All of such a row's features are below e^-100.
TEST(Performer, ARowFarFromAllFeaturesIsANumber) {
  const Layer layer(Example(R"({"kernel": "softmax", "num_features": 24})"), Precision::kF32);
  Passage passage(layer, 130);
  for (int64_t c = 0; c < 32; ++c) {
    for (int p : {0, 1}) passage.product(p).Set(5, c, 60 * passage.product(p).At(5, c));
  }
  passage.Extend(*layer.attention().Start(), 0, 130);
  for (int64_t i : {0, 4, 5, 6, 129}) {
    for (int64_t c = 0; c < 32; ++c) EXPECT_TRUE(std::isfinite(passage.out().At(i, c))) << "row " << i;
  }
}

TEST(Performer, RefusesWhatCannotBe) {
  const Layer layer(Example(R"({"kernel": "relu", "num_features": 24})"), Precision::kF32);
  const auto weights = Weights::Of({});
  ExpectRefused(
      layer, WeightScope(*weights),
      {{Place::kDecoder, R"({"num_features": 24})", {"kernel is missing"}},
       {Place::kDecoder, R"({"kernel": "cosine", "num_features": 24})", {"kernel", "cosine", "relu"}},
       {Place::kDecoder, R"({"kernel": "relu"})", {"num_features is missing"}},
       {Place::kDecoder, R"({"kernel": "relu", "num_features": 0})", {"num_features", "0", "below 1"}},
       {Place::kDecoder, R"({"kernel": "relu", "num_features": 9, "eps": 2})", {"eps", "2", "above 1"}},
       {Place::kDecoder, R"({"kernel": "relu", "num_features": 9})", {"q.weight"}}});
}

}  // namespace
}  // namespace heed
