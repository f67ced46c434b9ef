// "softmax": dot-product attention with the options of current checkpoints; with none of them it is "full".
//   num_key_value_heads (num_heads)  grouped queries (Ainslie et al. 2023); 1 = multi-query (Shazeer 2019)
//   head_dim (hidden_size / num_heads), scale (1 / sqrt(head_dim))
//   rope {theta (10000), dims (head_dim), layout "half" | "interleaved"}    (Su et al. 2021)
//   alibi (false)                           -slope[head] * distance          (Press et al. 2022)
//   relative_bias {buckets, max_distance}   a learned bias for each bucket of distances, tensor [buckets,
//   heads]
//                                           (Raffel et al. 2020)
//   shaw {max_distance, values (true), per_head (false)}   learned vectors for the distance, clipped at
//                                           max_distance to either side, added to keys and, with values, to
//                                           values (Shaw et al. 2018): tensors shaw_keys, shaw_values
//                                           [2 max_distance + 1, head_dim], with per_head [heads, ...]
//   window (none)                           a token sees the newest `window`, itself included; in an encoder
//                                           those at most window / 2 to either side
//   sinks (0), sink_positions ("cache" | "text")   the first tokens stay visible (Xiao et al. 2023)
// Sinks are the first keys kept a second time, which a row sees as soon as its window has passed them, so
// that the pages behind the window can go.
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "engine/attention/pattern_attention.h"
#include "engine/attention/shaw.h"
#include "engine/attention/t5_buckets.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostHeadDim = 1024;
constexpr int64_t kFar = int64_t{1} << 30;  // of a window, and of sinks
constexpr int64_t kMostBuckets = 512;
constexpr int64_t kMostDistance = 1 << 16;      // a table a head holds so many biases to either side
constexpr int64_t kMostShawDistance = 1 << 12;  // a task holds so many products to either side, of each row
constexpr double kLeastScale = 1e-6, kMostScale = 1e6;

struct Options : PatternOptions {
  bool causal = false;
  int64_t window = 0;  // 0: none
  int64_t sinks = 0;
  bool sinks_by_text = false;  // rotation and bias see a sink at its distance in the text, not in the cache
};

class WindowWithSinks : public BandPattern {
 public:
  explicit WindowWithSinks(const Options& options)
      : BandPattern({.left = options.window - 1, .right = 0}),
        window_(options.window),
        sinks_(options.sinks) {
    TrackSet& sinks = sets_.emplace_back();
    sinks.limit = options.sinks;
    if (!options.sinks_by_text) sinks.last_place = options.sinks + options.window - 1;
  }
  Range Sees(int set, int64_t position) const override {
    return set == 0 ? BandPattern::Sees(0, position) : Range{0, position - window_ + 1};
  }
  int64_t KeptFrom(int set, int64_t places) const override {
    return set == 0 ? BandPattern::KeptFrom(0, places) : 0;
  }
  int64_t MostKept(int set, int64_t places) const override {
    return set == 0 ? BandPattern::MostKept(0, places) : places;
  }
  double Pairs(int64_t rows, int64_t tokens) const override {
    const auto until = [&](int64_t n) {
      const double seen = std::min<double>(n, window_ + sinks_), length = n;
      return seen * (seen + 1) / 2 + (length - seen) * seen;
    };
    return until(tokens) - until(tokens - rows);
  }

 private:
  int64_t window_, sinks_;
};

std::shared_ptr<const Pattern> NewPattern(const Options& options) {
  if (options.sinks > 0) return std::make_shared<WindowWithSinks>(options);
  if (options.window > 0) return std::make_shared<BandPattern>(WindowBand(options.window, options.causal));
  return std::make_shared<BandPattern>(Band{.right = options.causal ? 0 : kUnlimited});
}

// The series 2^(-8(h+1)/p) for the p first heads, p the largest power of two not above `heads`; then, for the
// rest, every other number of the series of 2p heads.
double AlibiSlope(int heads, int head) {
  int p = 1;
  while (2 * p <= heads) p *= 2;
  const double step = head < p ? head + 1.0 : (2.0 * (head - p) + 1) / 2;
  return std::exp2(-8 * step / p);
}

absl::StatusOr<std::optional<Rotary>> ReadRotary(JsonFields& fields, int64_t head_dim) {
  if (!fields.Has("rope")) return std::nullopt;
  JsonFields rope(fields.Raw("rope"), Cat(fields.where(), ".rope"));
  const double theta = rope.Number("theta", 10000, 1, 1e12);
  const int64_t dims = rope.Int("dims", head_dim, 2, head_dim);
  const bool interleaved = rope.Choice("layout", {"half", "interleaved"}) == "interleaved";
  RETURN_IF_ERROR(rope.Finish());
  if (dims % 2 != 0) return Invalid(rope.where(), ".dims: ", dims, " is odd, and rotation turns pairs");
  return Rotary(static_cast<int>(dims), theta, interleaved);
}

// A learned table with the distance beyond which it does not change.
struct RelativeBias {
  int64_t max_distance = 0;
  std::vector<float> values;  // [buckets, heads]
  std::optional<T5Buckets> buckets;
};

absl::StatusOr<RelativeBias> ReadRelativeBias(JsonFields& fields, const Options& options,
                                              const WeightScope& scope) {
  RelativeBias bias;
  if (!fields.Has("relative_bias")) return bias;
  JsonFields relative(fields.Raw("relative_bias"), Cat(fields.where(), ".relative_bias"));
  const int sides = options.causal ? 1 : 2;
  const int64_t buckets = relative.RequiredInt("buckets", sides, kMostBuckets);
  bias.max_distance = relative.RequiredInt("max_distance", buckets / sides / 2 + 1, kMostDistance);
  RETURN_IF_ERROR(relative.Finish());
  bias.buckets.emplace(static_cast<int>(buckets), bias.max_distance, !options.causal);
  ASSIGN_OR_RETURN(bias.values, scope.Floats("relative_bias", {buckets, options.heads}));
  return bias;
}

std::optional<DistanceBias> NewBias(bool alibi, const RelativeBias& relative, int heads) {
  if (!alibi && !relative.buckets) return std::nullopt;
  const auto slope = [&](int head) { return alibi ? -AlibiSlope(heads, head) : 0.0; };
  const auto value = [&](int head, int64_t distance) {
    const double straight = slope(head) * static_cast<double>(std::abs(distance));
    return relative.buckets ? straight + relative.values[relative.buckets->Bucket(-distance) * heads + head]
                            : straight;
  };
  return DistanceBias(heads, relative.max_distance, value, slope);
}

absl::StatusOr<std::optional<ShawVectors>> ReadShaw(JsonFields& fields, const AttentionSetting& setting,
                                                    const Options& options, const WeightScope& scope) {
  if (!fields.Has("shaw")) return std::nullopt;
  JsonFields shaw(fields.Raw("shaw"), Cat(fields.where(), ".shaw"));
  ShawVectors::Tables tables{.ahead = !options.causal};
  tables.clip = shaw.RequiredInt("max_distance", 1, kMostShawDistance);
  const bool values = shaw.Bool("values", true), per_head = shaw.Bool("per_head", false);
  if (setting.cross) shaw.Fail("the keys of another sequence have no distance");
  if (options.rotary) shaw.Fail("not with rope: keys would be told from their positions twice");
  if (options.sinks > 0) shaw.Fail("not with sinks, whose distance is another one in the cache");
  RETURN_IF_ERROR(shaw.Finish());
  std::vector<int64_t> shape = {2 * tables.clip + 1, options.head_dim};
  if (per_head) shape.insert(shape.begin(), tables.heads = options.heads);
  ASSIGN_OR_RETURN(tables.keys, scope.Floats("shaw_keys", shape));
  if (values) {
    ASSIGN_OR_RETURN(tables.values, scope.Floats("shaw_values", shape));
  }
  return ShawVectors(options, ActivationType(setting.precision), tables);
}

// What no single field can say.
absl::Status CheckTogether(const JsonFields& fields, const AttentionSetting& setting,
                           const Options& options) {
  if (!fields.Has("head_dim") && setting.width % options.heads != 0) {
    return Invalid(fields.where(), ": hidden_size ", setting.width, " is not divisible by ", options.heads,
                   " heads, and there is no head_dim");
  }
  if (options.heads % options.key_value_heads != 0) {
    return Invalid(fields.where(), ".num_key_value_heads: ", options.heads, " heads are not divisible by ",
                   options.key_value_heads);
  }
  if (options.window > 0 && setting.cross) {
    return Invalid(fields.where(), ".window: ", options.window,
                   ": the keys of another sequence have no distance");
  }
  if (options.sinks > 0 && !options.causal) {
    return Invalid(fields.where(), ".sinks: ", options.sinks,
                   ": sinks are what a decoder's window leaves behind");
  }
  if (options.sinks > 0 && options.window == 0) {
    return Invalid(fields.where(), ".sinks: ", options.sinks,
                   " sinks need a window; without one every token stays visible");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewSoftmaxAttention(const AttentionSetting& setting,
                                                               JsonFields& fields, const WeightScope& scope) {
  Options options;
  options.heads = setting.num_heads;
  options.causal = setting.causal && !setting.cross;
  options.key_value_heads =
      static_cast<int>(fields.Int("num_key_value_heads", options.heads, 1, options.heads));
  options.head_dim = fields.Int("head_dim", setting.width / options.heads, 1, kMostHeadDim);
  options.scale =
      fields.Number("scale", 1 / std::sqrt(static_cast<double>(options.head_dim)), kLeastScale, kMostScale);
  options.window = fields.Int("window", 0, 0, kFar);
  options.sinks = fields.Int("sinks", 0, 0, kFar);
  options.sinks_by_text = fields.Choice("sink_positions", {"cache", "text"}) == "text";
  const bool alibi = fields.Bool("alibi", false);
  fields.Raw("rope");
  fields.Raw("relative_bias");
  fields.Raw("shaw");
  RETURN_IF_ERROR(fields.Finish());
  RETURN_IF_ERROR(CheckTogether(fields, setting, options));
  ASSIGN_OR_RETURN(options.rotary, ReadRotary(fields, options.head_dim));
  ASSIGN_OR_RETURN(RelativeBias relative, ReadRelativeBias(fields, options, scope));
  options.bias = NewBias(alibi, relative, options.heads);
  options.patterns = {NewPattern(options)};
  ASSIGN_OR_RETURN(std::optional<ShawVectors> shaw, ReadShaw(fields, setting, options, scope));
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadQueriesKeysValues(setting, options, scope));
  if (shaw) {
    return std::make_unique<ShawAttention>(setting, std::move(options), std::move(products),
                                           *std::move(shaw));
  }
  return std::make_unique<PatternAttention>(setting, std::move(options), std::move(products));
}

}  // namespace heed
