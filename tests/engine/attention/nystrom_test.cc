// What a Nyströmformer's rows get, against the definition in double; what it refuses, and how it grows.
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "engine/ops/microkernel.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

using Vector = std::vector<double>;
using Vectors = std::vector<Vector>;  // rows of a matrix

std::vector<AttentionExample> Examples() {
  std::vector<AttentionExample> examples;
  for (const AttentionExample& example : AttentionExamples()) {
    if (example.type == "nystrom") examples.push_back(example);
  }
  return examples;
}

Vectors Times(const Vectors& a, const Vectors& b) {
  Vectors c(a.size(), Vector(b[0].size()));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t k = 0; k < b.size(); ++k) {
      for (size_t j = 0; j < b[0].size(); ++j) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}

Vectors Weights(const Vectors& a, const Vectors& b) {
  Vectors weights(a.size(), Vector(b.size()));
  for (size_t i = 0; i < a.size(); ++i) {
    double sum = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      double score = 0;
      for (size_t t = 0; t < a[i].size(); ++t) score += a[i][t] * b[j][t];
      sum += weights[i][j] = std::exp(score / std::sqrt(static_cast<double>(a[i].size())));
    }
    for (double& weight : weights[i]) weight /= sum;
  }
  return weights;
}

Vectors Inverse(const Vectors& a) {
  const size_t m = a.size();
  double most = 0;
  for (size_t j = 0; j < m; ++j) {
    double sum = 0;
    for (size_t i = 0; i < m; ++i) sum += a[i][j];
    most = std::max(most, sum);
  }
  Vectors z(m, Vector(m));
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < m; ++j) z[i][j] = a[j][i] / most;
  }
  const auto less = [m](double diagonal, Vectors x) {
    for (size_t i = 0; i < m; ++i) {
      for (double& number : x[i]) number = -number;
      x[i][i] += diagonal;
    }
    return x;
  };
  for (int round = 0; round < 6; ++round) {
    const Vectors az = Times(a, z);
    z = Times(z, less(13, Times(az, less(15, Times(az, less(7, az))))));
    for (Vector& row : z) {
      for (double& number : row) number /= 4;
    }
  }
  return z;
}

Vectors OfHead(const OwnedRows& rows, int head, int64_t dim) {
  Vectors result(rows.rows().rows, Vector(dim));
  for (int64_t r = 0; r < std::ssize(result); ++r) {
    for (int64_t t = 0; t < dim; ++t) result[r][t] = rows.At(r, head * dim + t);
  }
  return result;
}

Vectors Means(const Vectors& rows, int64_t m) {
  const int64_t n = std::ssize(rows);
  Vectors means(m, Vector(rows[0].size()));
  for (int64_t s = 0; s < m; ++s) {
    const int64_t begin = s * n / m, end = (s + 1) * n / m;
    for (int64_t r = begin; r < end; ++r) {
      for (size_t t = 0; t < means[s].size(); ++t)
        means[s][t] += rows[r][t] / static_cast<double>(end - begin);
    }
  }
  return means;
}

void AddConvolution(const Layer& layer, int head, const Vectors& v, Vectors& y) {
  const int64_t size = layer.options().value("conv_kernel", 0), n = std::ssize(v);
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t c = 0; c < size; ++c) {
      const int64_t from = r + c - size / 2;
      if (from < 0 || from >= n) continue;
      for (size_t t = 0; t < v[0].size(); ++t)
        y[r][t] += layer.tensor("conv.weight")[head * size + c] * v[from][t];
    }
  }
}

// All rows of a head.
Vectors Definition(const Layer& layer, const Passage& passage, int head) {
  const int64_t dim = layer.example().width / layer.example().num_heads, m = layer.options()["num_landmarks"];
  const Vectors q = OfHead(passage.product(0), head, dim), k = OfHead(passage.product(1), head, dim),
                v = OfHead(passage.product(2), head, dim);
  Vectors y;
  if (passage.n() <= m) {
    y = Times(Weights(q, k), v);
  } else {
    const Vectors few_q = Means(q, m), few_k = Means(k, m);
    const Vectors found = Times(Weights(few_q, k), v);
    y = Times(Weights(q, few_k), Times(Inverse(Weights(few_q, few_k)), found));
  }
  AddConvolution(layer, head, v, y);
  return y;
}

// Relative to the largest number of the head.
void ExpectTheDefinition(const Layer& layer, int64_t n, double tolerance) {
  const Passage passage = Whole(layer, n);
  const int64_t dim = layer.example().width / layer.example().num_heads;
  for (int head = 0; head < layer.example().num_heads; ++head) {
    const Vectors expected = Definition(layer, passage, head);
    double largest = 1;
    for (const Vector& row : expected) {
      for (double x : row) largest = std::max(largest, std::abs(x));
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t t = 0; t < dim; ++t) {
        ASSERT_NEAR(passage.out().At(i, head * dim + t), expected[i][t], tolerance * largest)
            << layer.options() << " row " << i << " of " << n << ", head " << head;
      }
    }
  }
}

TEST(Nystrom, IsItsDefinition) {
  for (const AttentionExample& example : Examples()) {
    const Layer layer(example, Precision::kF32);
    const int64_t m = layer.options()["num_landmarks"];
    for (int64_t n : {int64_t{1}, int64_t{20}, m, m + 1, 2 * m + 3}) ExpectTheDefinition(layer, n, 1e-4);
  }
}

// Several parts of rows, and several rows of a landmark.
TEST(Nystrom, IsItsDefinitionOfLongTexts) {
  const Layer layer(Examples()[1], Precision::kF32);
  for (int64_t n : {640, 1025, 3000}) ExpectTheDefinition(layer, n, 1e-4);
}

// A kernel that is longer than a task's rows, and than the text.
TEST(Nystrom, IsItsDefinitionWhereTheKernelIsLong) {
  const Layer layer({"nystrom", R"({"num_landmarks": 8, "conv_kernel": 301})", Place::kEncoder, 40, 2,
                     WithConvolution(40, 2, 301)},
                    Precision::kF32);
  for (int64_t n : {1, 7, 150, 700}) ExpectTheDefinition(layer, n, 1e-4);
}

TEST(Nystrom, IsItsDefinitionWhereATextHasFewerRowsThanLandmarksAndNoKernel) {
  const Layer layer({"nystrom", R"({"num_landmarks": 8192, "conv_kernel": 0})", Place::kEncoder, 40, 2,
                     QueryKeyValue(40, 40, 40)},
                    Precision::kF32);
  for (int64_t n : {1, 300}) ExpectTheDefinition(layer, n, 1e-4);
}

TEST(Nystrom, IsItsDefinitionInBf16) {
  const Precision precision = Supported(Precision::kBf16);  // f32 where the CPU has no bf16
  for (const AttentionExample& example : Examples()) {
    const Layer layer(example, precision);
    const int64_t m = layer.options()["num_landmarks"];
    for (int64_t n : {int64_t{1}, m, 2 * m + 3}) ExpectTheDefinition(layer, n, 0.05);
  }
}

// Landmarks that are all alike have weights without an inverse, and the pseudo-inverse gives every row the
// mean of all values.
TEST(Nystrom, OfRowsThatAreAllAlikeIsTheMeanOfTheirValues) {
  const Layer layer(Examples()[0], Precision::kF32);
  Passage passage(layer, 300);
  for (int p : {0, 1}) {
    for (int64_t r = 1; r < 300; ++r) {
      for (int64_t c = 0; c < 32; ++c)
        passage.product(p).Set(r, c, static_cast<float>(passage.product(p).At(0, c)));
    }
  }
  passage.Extend(*layer.attention().Start(), 0, 300);
  for (int64_t c = 0; c < 32; ++c) {
    double mean = 0;
    for (int64_t r = 0; r < 300; ++r) mean += passage.product(2).At(r, c) / 300;
    for (int64_t r = 0; r < 300; ++r) ASSERT_NEAR(passage.out().At(r, c), mean, 1e-4) << r << ", " << c;
  }
}

// Beside what landmarks do among themselves, a row costs the same however long the text is.
TEST(Nystrom, WorkGrowsAsTheRows) {
  for (const AttentionExample& example : Examples()) {
    const Layer layer(example, Precision::kF32);
    const auto work = [&](int64_t n) { return MultiplyAddsOf(layer, n); };
    EXPECT_EQ(work(6144) - work(3072), work(3072 + 6144) - work(6144)) << example.options;
  }
}

// Of each part of the rows, a row for each landmark.
TEST(Nystrom, StateGrowsByPartsOfTheRows) {
  const Layer layer(Examples()[0], Precision::kF32);
  const auto bytes = [&](int64_t n) { return layer.attention().StateBytes(n); };
  EXPECT_EQ(bytes(33), bytes(1024));
  EXPECT_EQ(bytes(1025) - bytes(1024), 4 * 32 * (16 + 2) * 4);
  EXPECT_EQ(bytes(101 * 1024) - bytes(1024), 100 * (bytes(1025) - bytes(1024)));
}

// Rows that landmarks read are packed for them, part by part: a task's own.
TEST(Nystrom, StateAndScratchAreAllThatRowsTake) {
  const Layer layer(
      {"nystrom", R"({"num_landmarks": 8})", Place::kEncoder, 256, 1, QueryKeyValue(256, 256, 256)},
      Precision::kF32);
  Passage passage(layer, 3000);
  const int64_t taken = MostWhileAttending(passage, *layer.attention().Start());
  EXPECT_LE(taken, layer.attention().StateBytes(3000) + layer.attention().ScratchBytes());
}

// An inverse that is no task's work is done step by step, and no step's rows are.
TEST(Nystrom, ManyLandmarksAreManySmallTasks) {
  const auto plan = [](const char* options, int64_t n) {
    const Layer layer({"nystrom", options, Place::kEncoder, 8, 1, QueryKeyValue(8, 8, 8)}, Precision::kF32);
    return Passage(layer, n).Plan(*layer.attention().Start());
  };
  EXPECT_EQ(plan(R"({"num_landmarks": 300})", 2000).size(), 4);  // means, what they read, the inverse, rows
  for (const auto& [options, n, tasks] : {std::tuple(R"({"num_landmarks": 1024})", 2000, 8),
                                          std::tuple(R"({"num_landmarks": 4096})", 5000, 64)}) {
    const std::vector<AttentionStage> stages = plan(options, n);
    EXPECT_EQ(stages.size(), 3 + 1 + 25 + 2);
    for (const AttentionStage& stage : stages) EXPECT_LE(stage.cost, kTaskCost);
    EXPECT_EQ(stages[5].tasks, tasks) << options;
  }
}

TEST(Nystrom, RefusesWhatCannotBe) {
  const Layer layer(Examples()[0], Precision::kF32);
  const auto weights = Weights::Of({});
  constexpr const char* kGood = R"({"num_landmarks": 32})";
  ExpectRefused(layer, WeightScope(*weights),
                {{Place::kDecoder, kGood, {"layers[0].attention", "encoders only", "later rows"}},
                 {Place::kCross, kGood, {"self-attention only"}},
                 {Place::kEncoder, "{}", {"num_landmarks is missing"}},
                 {Place::kEncoder, R"({"num_landmarks": 0})", {"num_landmarks", "0", "below 1"}},
                 {Place::kEncoder, R"({"num_landmarks": 8193})", {"num_landmarks", "8193", "above 8192"}},
                 {Place::kEncoder, R"({"num_landmarks": 8, "conv_kernel": 4})", {"conv_kernel", "4", "even"}},
                 {Place::kEncoder, R"({"num_landmarks": 8, "conv_kernel": 4097})", {"4097", "above 4095"}},
                 {Place::kEncoder, kGood, {"q.weight"}}});
  ExpectRefused(layer, layer.scope(),
                {{Place::kEncoder, R"({"num_landmarks": 8, "conv_kernel": 5})", {"conv.weight"}}});
}

}  // namespace
}  // namespace heed
