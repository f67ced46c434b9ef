#include "engine/attention/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace heed {
namespace {

constexpr double kMostFactor = 1e6;
constexpr int64_t kMostPositions = int64_t{1} << 31;

struct Turning {
  std::vector<double> frequencies;
  double theta = 0;
  double factor = 1;  // of cosines and sines

  int64_t dims() const { return 2 * std::ssize(frequencies); }
};

// A number above 0 that must be there.
double RequiredNumber(JsonFields& fields, const char* key, double least) {
  if (!fields.Has(key)) fields.Fail(Cat(key, " is missing"));
  return fields.Number(key, 1, least, kMostFactor);
}

void ScaleAsLlama3(JsonFields& fields, double factor, Turning& turning) {
  const double low = RequiredNumber(fields, "low_freq_factor", 1e-6),
               high = RequiredNumber(fields, "high_freq_factor", 1e-6);
  const auto length =
      static_cast<double>(fields.RequiredInt("original_max_position_embeddings", 1, kMostPositions));
  if (high <= low) fields.Fail(Cat("high_freq_factor: ", high, " is not above low_freq_factor ", low));
  for (double& f : turning.frequencies) {
    const double turns = length * f / (2 * std::numbers::pi);
    const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    f = kept * f + (1 - kept) * f / factor;
  }
}

double MscaleOf(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

double ReadAttentionFactor(JsonFields& fields, double factor) {
  const double mscale = fields.Number("mscale", 0, 0, kMostFactor),
               all = fields.Number("mscale_all_dim", 0, 0, kMostFactor);
  const double own =
      mscale > 0 && all > 0 ? MscaleOf(factor, mscale) / MscaleOf(factor, all) : MscaleOf(factor, 1);
  return fields.Number("attention_factor", own, 1e-6, kMostFactor);
}

void ScaleAsYarn(JsonFields& fields, double factor, Turning& turning) {
  const auto length =
      static_cast<double>(fields.RequiredInt("original_max_position_embeddings", 1, kMostPositions));
  const double fast = fields.Number("beta_fast", 32, 1e-6, kMostFactor),
               slow = fields.Number("beta_slow", 1, 1e-6, kMostFactor);
  const bool truncate = fields.Bool("truncate", true);
  turning.factor = ReadAttentionFactor(fields, factor);
  if (slow > fast) fields.Fail(Cat("beta_slow: ", slow, " is above beta_fast ", fast));
  if (turning.theta <= 1) fields.Fail("yarn scales frequencies that fall, and theta is 1");
  // The pair that turns so often, as a fraction of pairs.
  const auto dims = static_cast<double>(turning.dims());
  const auto pair = [&](double turns) {
    return dims * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(turning.theta));
  };
  const double low = std::max(truncate ? std::floor(pair(fast)) : pair(fast), 0.0);
  double high = std::min(truncate ? std::ceil(pair(slow)) : pair(slow), dims - 1);
  if (high == low) high += 0.001;
  for (int64_t t = 0; t < std::ssize(turning.frequencies); ++t) {
    double& f = turning.frequencies[t];
    const double ramp = std::clamp((static_cast<double>(t) - low) / (high - low), 0.0, 1.0);
    f = ramp * f / factor + (1 - ramp) * f;
  }
}

// Each pair's frequency divided by a factor of its own (Ding et al. 2024).
void ScaleEach(JsonFields& fields, Turning& turning) {
  const Json& factors = fields.Raw("factors");
  turning.factor = fields.Number("attention_factor", 1, 1e-6, kMostFactor);
  if (!factors.is_array() || factors.size() != turning.frequencies.size())
    return fields.Fail(Cat("factors: no list of ", turning.frequencies.size(), " numbers, one a pair"));
  for (size_t t = 0; t < factors.size(); ++t) {
    const double factor = factors[t].is_number() ? factors[t].get<double>() : 0;
    if (!(factor >= 1e-6 && factor <= kMostFactor))
      return fields.Fail(
          Cat("factors[", t, "]: ", Shown(factors[t]), " is no number from 1e-06 to ", kMostFactor));
    turning.frequencies[t] /= factor;
  }
}

// The first pairs alone; the others keep their places, and are not turned.
void TurnAShare(JsonFields& fields, Turning& turning) {
  const double share = RequiredNumber(fields, "share", 0);
  if (share > 1) fields.Fail(Cat("share: ", share, " is above 1"));
  const auto turned = static_cast<int64_t>(share * static_cast<double>(turning.dims())) / 2;
  for (int64_t t = std::min(turned, std::ssize(turning.frequencies)); t < std::ssize(turning.frequencies);
       ++t)
    turning.frequencies[t] = 0;
}

absl::Status Scale(JsonFields fields, Turning& turning) {
  if (!fields.Has("type")) fields.Fail("type is missing");
  const std::string type = fields.Choice("type", {"linear", "llama3", "yarn", "proportional", "longrope"});
  if (type == "proportional" || type == "longrope") {
    type == "longrope" ? ScaleEach(fields, turning) : TurnAShare(fields, turning);
    return fields.Finish();
  }
  const double factor = RequiredNumber(fields, "factor", 1);
  if (type == "llama3") {
    ScaleAsLlama3(fields, factor, turning);
  } else if (type == "yarn") {
    ScaleAsYarn(fields, factor, turning);
  } else {
    for (double& f : turning.frequencies) f /= factor;
  }
  return fields.Finish();
}

}  // namespace

absl::StatusOr<std::optional<Rotary>> ReadRotary(JsonFields& fields, int64_t head_dim) {
  if (!fields.Has("rope")) return std::nullopt;
  JsonFields rope(fields.Raw("rope"), Cat(fields.where(), ".rope"));
  Turning turning{.theta = rope.Number("theta", 10000, 1, 1e12)};
  const int64_t dims = rope.Int("dims", head_dim, 2, head_dim);
  const bool interleaved = rope.Choice("layout", {"half", "interleaved"}) == "interleaved";
  const Json& scaling = rope.Raw("scaling");
  RETURN_IF_ERROR(rope.Finish());
  if (dims % 2 != 0) return Invalid(rope.where(), ".dims: ", dims, " is odd, and rotation turns pairs");
  turning.frequencies = RotaryFrequencies(dims, turning.theta);
  if (!scaling.is_null()) RETURN_IF_ERROR(Scale(JsonFields(scaling, rope.where() + ".scaling"), turning));
  return Rotary(turning.frequencies, interleaved, turning.factor);
}

}  // namespace heed
