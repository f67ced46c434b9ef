// Rows in double, one after another, as definitions have them: what the ends of models are compared with.
#ifndef HEED_TESTS_ENGINE_MODELS_NAIVE_ROWS_H_
#define HEED_TESTS_ENGINE_MODELS_NAIVE_ROWS_H_

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/log/check.h"
#include "engine/models/native.h"
#include "tests/engine/models/whole_inputs.h"
#include "tests/testing/random_model.h"

namespace heed {

using Tensors = std::map<std::string, Tensor>;
using Row = std::vector<double>;

// Rows of equal length as a tensor that owns its numbers.
inline Tensor TensorOf(const std::vector<Row>& rows) {
  const int64_t width = std::ssize(rows.at(0));
  const auto memory = std::make_shared<Buffer>(rows.size() * width * sizeof(float));
  float* to = memory->as<float>();
  for (const Row& row : rows) to = std::ranges::copy(row, to).out;
  return {DType::kF32, {std::ssize(rows), width}, memory->as<char>(), memory};
}

// A row of a matrix; the first of a vector is all of it.
inline Row RowOf(const Tensors& tensors, const std::string& name, int64_t row = 0) {
  const Tensor& tensor = tensors.at(name);
  const int64_t width = tensor.shape.back();
  const std::vector<float> all = ToFloats(tensor);
  return {all.begin() + row * width, all.begin() + (row + 1) * width};
}

inline Row Sum(Row x, const Row& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y.at(i);
  return x;
}

inline Row Times(Row x, double factor) {
  for (double& number : x) number *= factor;
  return x;
}

// W x + b, if there is a bias.
inline Row Projected(const Tensors& tensors, const std::string& name, const Row& x) {
  Row y;
  for (int64_t j = 0; j < tensors.at(name + ".weight").dim(0); ++j) {
    const Row weight = RowOf(tensors, name + ".weight", j);
    CHECK_EQ(weight.size(), x.size());
    y.push_back(0);
    for (size_t i = 0; i < x.size(); ++i) y[j] += weight[i] * x[i];
  }
  return tensors.contains(name + ".bias") ? Sum(y, RowOf(tensors, name + ".bias")) : y;
}

// With weight and bias where there are such tensors.
inline Row Normed(const Tensors& tensors, const std::string& name, Row x, bool rms = false) {
  double mean = 0, square = 0;
  for (const double number : x) mean += rms ? 0 : number / static_cast<double>(x.size());
  for (const double number : x) square += (number - mean) * (number - mean) / static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = (x[i] - mean) / std::sqrt(square + 1e-5);
    if (tensors.contains(name + ".weight")) x[i] *= RowOf(tensors, name + ".weight")[i];
    if (tensors.contains(name + ".bias")) x[i] += RowOf(tensors, name + ".bias")[i];
  }
  return x;
}

inline std::unique_ptr<const Model> ModelOf(const Json& config, const Tensors& tensors,
                                            Precision precision = Precision::kF32) {
  auto model = NewNativeModel(config, *Weights::Of(tensors), {.precision = precision});
  CHECK(model.ok()) << model.status();
  return *std::move(model);
}

// All answers of an input, each a row.
inline std::vector<Row> Answers(const Model& model, const WholeInput& input) {
  Threads threads(2);
  const Output all = Alone(model, input, threads);
  const int64_t width = model.info().output_width;
  std::vector<Row> rows;
  for (size_t at = 0; at < all.size(); at += width)
    rows.emplace_back(all.begin() + at, all.begin() + at + width);
  return rows;
}

inline void ExpectNear(const std::vector<Row>& actual, const std::vector<Row>& expected, double error,
                       const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t r = 0; r < actual.size(); ++r) {
    ASSERT_EQ(actual[r].size(), expected[r].size()) << what;
    for (size_t i = 0; i < actual[r].size(); ++i)
      ASSERT_NEAR(actual[r][i], expected[r][i], error) << what << ", row " << r << ", number " << i;
  }
}

// The mean distance of their numbers: what reduced precision does to them is small beside 1.
inline double MeanDistance(const std::vector<Row>& a, const std::vector<Row>& b) {
  double sum = 0, count = 0;
  for (size_t r = 0; r < a.size(); ++r) {
    for (size_t i = 0; i < a[r].size(); ++i, ++count) sum += std::abs(a[r][i] - b.at(r).at(i));
  }
  return sum / count;
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_MODELS_NAIVE_ROWS_H_
