// The definitions of attentions in which rows meet as sums of rows.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "engine/attention/t5_buckets.h"
#include "tests/engine/attention/definitions.h"

namespace heed {
namespace {

using Vector = std::vector<double>;
using Vectors = std::vector<Vector>;

// The layer's input as products read it.
OwnedRows NormedInput(const Passage& passage) {
  const Layer& layer = passage.layer();
  OwnedRows x(DType::kF32, passage.n(), layer.example().width);
  layer.Normalize(passage.input().rows().As<const float>(), x.rows());
  return x;
}

// One head's columns of a product of a row.
Vector HeadProduct(const Layer& layer, const std::string& name, const Vector& x, int head, int64_t dim) {
  const float* weight = layer.tensor(name + ".weight");
  Vector y(dim);
  for (int64_t t = 0; t < dim; ++t) {
    const int64_t row = head * dim + t;
    for (size_t c = 0; c < x.size(); ++c) y[t] += static_cast<double>(weight[row * std::ssize(x) + c]) * x[c];
    if (layer.tensors().contains(name + ".bias")) y[t] += layer.tensor(name + ".bias")[row];
  }
  return y;
}

// Of each whole block; the last has the rows after it too.
Vectors Summaries(const Passage& passage, int64_t block) {
  const OwnedRows x = NormedInput(passage);
  const int64_t n = passage.n(), width = passage.layer().example().width, blocks = n / block;
  const float* weight = passage.layer().tensor("global_norm.weight");
  Vectors summaries(blocks, Vector(width));
  for (int64_t r = 0; r < n && blocks > 0; ++r) {
    for (int64_t c = 0; c < width; ++c) summaries[std::min(r / block, blocks - 1)][c] += x.At(r, c);
  }
  for (Vector& summary : summaries) {
    double square = 0;
    for (const double number : summary) square += number * number / static_cast<double>(width);
    for (int64_t c = 0; c < width; ++c) summary[c] *= weight[c] / std::sqrt(square + 1e-5);
  }
  return summaries;
}

}  // namespace

// Of the layer's normed input. Off as far as the sum's size makes likely.
DefinedHead DefinedFourier(const Passage& passage, int head, bool) {
  const Layer& layer = passage.layer();
  const int64_t n = passage.n(), width = layer.example().width, dim = width / layer.example().num_heads;
  OwnedRows x(DType::kF32, n, width);
  layer.Normalize(passage.input().rows().As<const float>(), x.rows());
  const auto angle = [](int64_t product, int64_t length) {
    return -2 * std::numbers::pi * static_cast<double>(product % length) / static_cast<double>(length);
  };
  Vectors re(n, Vector(dim)), im(n, Vector(dim));  // over the columns
  for (int64_t t = 0; t < dim; ++t) {
    for (int64_t c = 0; c < width; ++c) {
      const double of = angle((head * dim + t) * c, width);
      for (int64_t j = 0; j < n; ++j) {
        re[j][t] += x.At(j, c) * std::cos(of);
        im[j][t] += x.At(j, c) * std::sin(of);
      }
    }
  }
  return [=](int64_t i) {
    DefinedRow row{Vector(dim), 3e-6 * std::sqrt(static_cast<double>(n * width))};
    for (int64_t j = 0; j < n; ++j) {
      const double c = std::cos(angle(i * j, n)), s = std::sin(angle(i * j, n));
      for (int64_t t = 0; t < dim; ++t) row.numbers[t] += re[j][t] * c - im[j][t] * s;
    }
    return row;
  };
}

// Off as far as sums of a block's rows are, too.
DefinedHead DefinedTransientGlobal(const Passage& passage, int head, bool) {
  const Layer& layer = passage.layer();
  const Json& o = layer.options();
  const int heads = layer.example().num_heads;
  const int64_t dim = layer.attention().out_width() / heads, block = o["global_block"], radius = o["radius"];
  const double scale = o.value("scale", 1 / std::sqrt(static_cast<double>(dim)));
  const T5Buckets buckets(o["relative_bias"]["buckets"], o["relative_bias"]["max_distance"], true);
  Vectors keys, values;
  for (const Vector& summary : Summaries(passage, block)) {
    keys.push_back(HeadProduct(layer, "k", summary, head, dim));
    values.push_back(HeadProduct(layer, "v", summary, head, dim));
  }
  const auto bias = [=, &layer](const char* table, int64_t distance) {
    return static_cast<double>(layer.tensor(table)[buckets.Bucket(-distance) * heads + head]);
  };
  return [=, &passage](int64_t i) {
    const Vector q = HeadOf(passage.product(0), i, head, dim);
    DefinedSoftmax softmax(dim);
    const auto add = [&](const Vector& key, double bias_of_key, const Vector& value) {
      Sum score = Dot(q, key) * scale;
      score.Add(bias_of_key);
      softmax.Add(score, [&](int64_t t) { return value[t]; });
    };
    for (int64_t j = std::max<int64_t>(i - radius, 0); j <= std::min(i + radius, passage.n() - 1); ++j)
      add(HeadOf(passage.product(1), j, head, dim), bias("relative_bias", j - i),
          HeadOf(passage.product(2), j, head, dim));
    const int64_t own = std::min(i / block, std::ssize(keys) - 1);
    for (int64_t b = 0; b < std::ssize(keys); ++b)
      add(keys[b], bias("global_relative_bias", b - own), values[b]);
    DefinedRow row = softmax.Row();
    row.bound = 10 * row.bound + 1e-5;
    return row;
  };
}

// Near a cosine of one an angle is the root of a rounding.
DefinedHead DefinedYoso(const Passage& passage, int head, bool) {
  const Layer& layer = passage.layer();
  const int64_t dim = layer.example().width / layer.example().num_heads;
  const double bits = layer.options().value("hash_bits", 9.0);
  return [=, &passage](int64_t i) {
    const Vector q = HeadOf(passage.product(0), i, head, dim);
    Vector sum(dim);
    for (int64_t j = 0; j < passage.n(); ++j) {
      const Vector k = HeadOf(passage.product(1), j, head, dim), v = HeadOf(passage.product(2), j, head, dim);
      const double cosine = Dot(q, k).value / std::sqrt(Dot(q, q).value * Dot(k, k).value);
      const double p = std::pow(1 - std::acos(std::clamp(cosine, -1.0, 1.0)) / std::numbers::pi, bits);
      for (int64_t t = 0; t < dim; ++t) sum[t] += p * v[t];
    }
    const double length = std::sqrt(Dot(sum, sum).value);
    for (double& number : sum) number /= length;
    return DefinedRow{sum, 1e-4};
  };
}

}  // namespace heed
