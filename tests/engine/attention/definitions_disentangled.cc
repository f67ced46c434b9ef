// The score of "disentangled" (He et al. 2021), written out once more: projections of the rows of R for each
// pair.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "tests/engine/attention/definitions.h"

namespace heed {
namespace {

using Vector = std::vector<double>;

int64_t Bucket(int64_t distance, int64_t buckets, int64_t max_distance) {
  const int64_t mid = buckets / 2;
  if (buckets == 0 || std::abs(distance) <= mid) return distance;
  const float share = std::log(static_cast<float>(std::abs(distance)) / static_cast<float>(mid)) /
                      std::log(static_cast<float>(max_distance - 1) / static_cast<float>(mid));
  const int64_t size = static_cast<int64_t>(std::ceil(share * static_cast<float>(mid - 1))) + mid;
  return distance < 0 ? -size : size;
}

// Row t of R, normed where the options say so.
Vector RelativeRow(const Pair& at, int64_t t) {
  const auto width = static_cast<int64_t>(at.heads()) * at.dim();
  const float* numbers = at.layer().tensor("relative.weight") + t * width;
  Vector row(numbers, numbers + width);
  if (!at.options().contains("relative_eps")) return row;
  double mean = 0, square = 0;
  for (const double x : row) mean += x / static_cast<double>(width);
  for (const double x : row) square += (x - mean) * (x - mean) / static_cast<double>(width);
  const double root = std::sqrt(square + at.options()["relative_eps"].get<double>());
  for (int64_t c = 0; c < width; ++c)
    row[c] = (row[c] - mean) / root * at.layer().tensor("relative_norm.weight")[c] +
             at.layer().tensor("relative_norm.bias")[c];
  return row;
}

// A head's part of a projection of row t.
Vector Projected(const Pair& at, const std::string& name, int64_t t) {
  const Vector row = RelativeRow(at, t);
  Vector head;
  for (int64_t d = 0; d < at.dim(); ++d) {
    const int64_t out = at.head * at.dim() + d;
    double sum = at.layer().tensor(name + ".bias")[out];
    for (size_t c = 0; c < row.size(); ++c)
      sum += at.layer().tensor(name + ".weight")[out * std::ssize(row) + static_cast<int64_t>(c)] * row[c];
    head.push_back(sum);
  }
  return head;
}

}  // namespace

Sum DisentangledScore(const Pair& at) {
  const Json& o = at.options();
  const int64_t buckets = o.value("buckets", int64_t{0}), max_distance = o["max_distance"],
                span = buckets > 0 ? buckets : max_distance;
  const int64_t t = std::clamp<int64_t>(Bucket(at.i - at.j, buckets, max_distance) + span, 0, 2 * span - 1);
  const Vector q = HeadOf(at.passage->product(0), at.i, at.head, at.dim()),
               k = HeadOf(at.passage->product(1), at.j, at.head, at.dim());
  const bool c2p = o.value("c2p", true), p2c = o.value("p2c", true);
  const double scale = 1 / std::sqrt(static_cast<double>(at.dim() * (1 + c2p + p2c)));
  Sum score = Dot(q, k) * scale;
  const auto add = [&](const Sum& more) { score = {score.value + more.value, score.size + more.size}; };
  if (c2p) add(Dot(q, Projected(at, "relative_k", t)) * scale);
  if (p2c) add(Dot(k, Projected(at, "relative_q", t)) * scale);
  return score;
}

}  // namespace heed
