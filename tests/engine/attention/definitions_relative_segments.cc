// The score of "relative_segments" (Dai et al. 2020, Yang et al. 2019), written out once more: a projection
// of the sines of the distance for each pair.
#include <cmath>

#include "tests/engine/attention/definitions.h"

namespace heed {
namespace {

using Vector = std::vector<double>;

// Of head_dim numbers a head, those of the head.
Vector Numbers(const Pair& at, const char* name, int64_t first = 0) {
  const float* numbers = at.layer().tensor(name) + (first * at.heads() + at.head) * at.dim();
  return Vector(numbers, numbers + at.dim());
}

Vector Plus(Vector a, const Vector& b) {
  for (size_t t = 0; t < a.size(); ++t) a[t] += b[t];
  return a;
}

// Column by column of the head, Wr R and its bias.
Vector OfDistance(const Pair& at, int64_t distance) {
  const int64_t width = at.layer().example().width, half = width / 2;
  Vector projected;
  for (int64_t t = 0; t < at.dim(); ++t) {
    const int64_t out = at.head * at.dim() + t;
    const float* row = at.layer().tensor("r.weight") + out * width;
    double sum = at.layer().tensors().contains("r.bias") ? at.layer().tensor("r.bias")[out] : 0;
    for (int64_t c = 0; c < half; ++c) {
      const double angle = static_cast<double>(distance) /
                           std::pow(10000.0, static_cast<double>(c) / static_cast<double>(half));
      sum += row[c] * std::sin(angle) + row[half + c] * std::cos(angle);
    }
    projected.push_back(sum);
  }
  return projected;
}

// Places between the row and the key.
int64_t Distance(const Pair& at, const RowSpacing& spacing) {
  const int64_t of_keys = at.layer().cross() ? spacing.source_step : spacing.step;
  return (at.i - spacing.apart) * spacing.step - (at.j - spacing.apart) * of_keys;
}

bool SameSegment(const Pair& at) {
  const int32_t any = at.options().value("any_segment", -1), row = at.passage->type(at.i),
                key = at.passage->source_type(at.j);
  return row == key || row == any || key == any;
}

}  // namespace

Sum RelativeSegmentsScore(const Pair& at) {
  const RowSpacing spacing = at.layer().example().spacing.value_or(RowSpacing());
  const Vector q = HeadOf(at.passage->product(0), at.i, at.head, at.dim()),
               k = HeadOf(at.passage->product(1), at.j, at.head, at.dim());
  Sum score = Dot(Plus(q, Numbers(at, "pos_bias_u")), k);
  const auto add = [&](const Sum& more) { score = {score.value + more.value, score.size + more.size}; };
  if (at.i >= spacing.apart && at.j >= spacing.apart) {
    add(Dot(Plus(q, Numbers(at, "pos_bias_v")), OfDistance(at, Distance(at, spacing))));
    if (at.options().value("segments", true))
      add(Dot(Plus(q, Numbers(at, "segment_bias")), Numbers(at, "segments", SameSegment(at) ? 1 : 0)));
  }
  return score * (1 / std::sqrt(static_cast<double>(at.dim())));
}

}  // namespace heed
