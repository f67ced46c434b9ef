// "softmax": dot-product attention with the options of current checkpoints; with none of them it is "full".
//   num_key_value_heads (num_heads)  grouped queries (Ainslie et al. 2023); 1 = multi-query (Shazeer 2019)
//   head_dim (hidden_size / num_heads), scale (1 / sqrt(head_dim))
//   rope {theta (10000), dims (head_dim), pairs (dims / 2) that turn, the first, layout "half" |
//   "interleaved", scaling (none)}          (Su et al. 2021);
//                                           scaling {type "linear", factor} (Chen et al. 2023), {type
//                                           "llama3", factor, low_freq_factor, high_freq_factor,
//                                           original_max_position_embeddings}, {type "yarn", factor,
//                                           original_max_position_embeddings, beta_fast (32), beta_slow (1),
//                                           mscale, mscale_all_dim, attention_factor, truncate (true)}
//                                           (Peng et al. 2023), {type "longrope", factors, attention_factor}
//                                           (Ding et al. 2024), {type "proportional", share} (Gemma 4, 2026):
//                                           engine/attention/rope.h has the formulas
//   qk_norm {type "rms" | "layer", over "head" | "all", per_head (false), after_rope (false), eps (the
//   model's), weight (true), bias (false)}  queries and keys normed before their products (Henry et al.
//   2020),
//                                           over the numbers of each head or of all heads: tensors q_norm,
//                                           k_norm.{weight, bias} of as many numbers, with per_head [heads,
//                                           head_dim]; after_rope: when they have been rotated
//   clip_qkv (none), clip_normed (false)    queries, keys and values to [-c, c], before the norm, or after it
//   soft_cap (none)                         c tanh(score / c), before biases (Gemma 2, 2024)
//   learned_sink (false)                    of each head one more score in the softmax's sum, which has no
//   value:
//                                           tensor sink.weight [heads] (gpt-oss, 2025)
//   output_gate (false) | true              results times the sigmoid of one more product, number by number:
//     | "head" | "head_softplus"            tensor gate.weight [num_heads head_dim, hidden_size] (Qwen3-Next,
//                                           2025); or head by head, gate.weight [num_heads, hidden_size], by
//                                           the sigmoid, or by the softplus (Laguna, 2026)
//   value_dim (head_dim)                    numbers of a value, where they are fewer than a key's: what is
//                                           attended has num_heads value_dim (MiMo-V2, 2025). The state holds
//                                           head_dim all the same
//   v_norm (false)                          values are normed, head by head, without weights (Gemma 4, 2026)
//   alibi (false), alibi_scale (1)          -slope[head] * distance, times that  (Press et al. 2022)
//   position_scale {beta, length}           scores times 1 + beta log(1 + floor(i / length)) in row i, before
//                                           they are capped (Llama 4, 2025)
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
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/attention/head_norm.h"
#include "engine/attention/pattern_attention.h"
#include "engine/attention/position_scale.h"
#include "engine/attention/rope.h"
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
constexpr double kLeastScale = 1e-6, kMostScale = 1e6;  // of scores; also of where they are capped

struct Options : PatternOptions {
  bool causal = false;
  int64_t window = 0;  // 0: none
  int64_t sinks = 0;
  bool sinks_by_text = false;  // rotation and bias see a sink at its distance in the text, not in the cache
  float clip = 0;              // of queries, keys and values; 0: none
  bool clip_normed = false;    // it is of queries and keys that have been normed
  bool norm_values = false;
  int64_t value_dim = 0;
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

// `alibi`: what its slopes are multiplied by; 0: there is none.
std::optional<DistanceBias> NewBias(double alibi, const RelativeBias& relative, int heads) {
  if (alibi == 0 && !relative.buckets) return std::nullopt;
  const auto slope = [&](int head) { return -alibi * AlibiSlope(heads, head); };
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
  if (options.soft_cap > 0) shaw.Fail("not with soft_cap, which would be of a part of the scores");
  if (options.position_scale) shaw.Fail("not with position_scale, which would be of a part of the scores");
  RETURN_IF_ERROR(shaw.Finish());
  std::vector<int64_t> shape = {2 * tables.clip + 1, options.head_dim};
  if (per_head) shape.insert(shape.begin(), tables.heads = options.heads);
  ASSIGN_OR_RETURN(tables.keys, scope.Floats("shaw_keys", shape));
  if (values) {
    ASSIGN_OR_RETURN(tables.values, scope.Floats("shaw_values", shape));
  }
  return ShawVectors(options, ActivationType(setting.precision), tables);
}

// What becomes of queries, keys and values before they meet.
absl::Status FinishProducts(JsonFields& fields, const AttentionSetting& setting, const WeightScope& scope,
                            Options& options, std::vector<Product>& products) {
  const HeadSizes sizes{options.heads, options.key_value_heads, options.head_dim, options.rotary.has_value()};
  ASSIGN_OR_RETURN(std::optional<QueryKeyNorms> norms, ReadQueryKeyNorms(fields, setting, sizes, scope));
  if (norms && norms->after_rope) {
    options.query_norm = std::move(norms->q);
    options.key_norm = std::move(norms->k);
    norms.reset();
  }
  const auto finish = [clip = options.clip, last = options.clip_normed](Product& product,
                                                                        std::optional<HeadNorm> norm) {
    if (clip == 0 && !norm) return;
    product.finish = [clip, last, norm = std::move(norm)](const Rows& results) {
      if (clip > 0 && !last) ClampTo(clip, results);
      if (norm) norm->Apply(results);
      if (clip > 0 && last) ClampTo(clip, results);
    };
  };
  finish(products[options.q], norms ? std::optional(std::move(norms->q)) : std::nullopt);
  if (setting.keys_lent) return absl::OkStatus();
  finish(products[options.k], norms ? std::optional(std::move(norms->k)) : std::nullopt);
  std::optional<HeadNorm> of_values;
  if (options.norm_values) {
    ASSIGN_OR_RETURN(of_values,
                     HeadNorm::Load(scope / "v_norm",
                                    {options.key_value_heads * options.head_dim, options.key_value_heads},
                                    {.weight = false, .eps = setting.norm_eps}));
  }
  finish(products[options.v], std::move(of_values));
  return absl::OkStatus();
}

// 0: it is not given.
double NumberOrNone(JsonFields& fields, std::string_view key) {
  const double number = fields.Number(key, 1, kLeastScale, kMostScale);
  return fields.Has(key) ? number : 0;
}

Options ReadOptions(const AttentionSetting& setting, JsonFields& fields) {
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
  options.soft_cap = NumberOrNone(fields, "soft_cap");
  options.clip = static_cast<float>(NumberOrNone(fields, "clip_qkv"));
  options.clip_normed = fields.Bool("clip_normed", false);
  options.norm_values = fields.Bool("v_norm", false);
  options.value_dim = fields.Int("value_dim", options.head_dim, 1, options.head_dim);
  return options;
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
  if (options.value_dim < options.head_dim && (setting.cross || options.norm_values)) {
    return Invalid(fields.where(), ".value_dim: ", options.value_dim, ": below head_dim ", options.head_dim,
                   " it is of a sequence's own values, which are not normed");
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

// Values that are narrower than keys, with zeros behind them.
absl::StatusOr<Product> LoadNarrowValues(const AttentionSetting& setting, const Options& options,
                                         const WeightScope& scope) {
  const int64_t heads = options.key_value_heads, narrow = options.value_dim, dim = options.head_dim;
  ASSIGN_OR_RETURN(const Product v, LoadProduct(scope, "v", heads * narrow, setting.width));
  Product wide{.name = v.name, .weight = ZeroMatrix(heads * dim, setting.width)};
  if (v.bias.data != nullptr) wide.bias = ZeroMatrix(heads * dim, 1);
  for (int64_t row = 0; row < heads * narrow; ++row) {
    const int64_t to = row / narrow * dim + row % narrow;
    ToFloats(v.weight, row * setting.width, setting.width, Writable(wide.weight) + to * setting.width);
    if (v.bias.data != nullptr) ToFloats(v.bias, row, 1, Writable(wide.bias) + to);
  }
  if (v.bias.data != nullptr) wide.bias.shape = {heads * dim};
  return wide;
}

// Of each head the first numbers.
Product TakeNarrow(const Options& options) {
  Product taken{.name = "narrow", .weight = ZeroMatrix(options.heads * options.value_dim, options.head_dim)};
  for (int64_t row = 0; row < options.heads * options.value_dim; ++row)
    Writable(taken.weight)[row * options.head_dim + row % options.value_dim] = 1;
  taken.groups = options.heads;
  return taken;
}

class NarrowAttention : public PatternAttention {
 public:
  NarrowAttention(const AttentionSetting& setting, const Options& options, std::vector<Product> products)
      : PatternAttention(setting, options, std::move(products)) {
    result_ = TakeNarrow(options);
  }
};

absl::StatusOr<std::vector<Product>> LoadSoftmaxProducts(const AttentionSetting& setting,
                                                         const Options& options, const WeightScope& scope) {
  if (setting.keys_lent) {
    std::vector<Product> queries(1);
    ASSIGN_OR_RETURN(queries[0], LoadProduct(scope, "q", options.heads * options.head_dim, setting.width));
    return queries;
  }
  if (options.value_dim == options.head_dim) return LoadQueriesKeysValues(setting, options, scope);
  std::vector<Product> products(3);
  const int64_t queries = options.heads * options.head_dim, keys = options.key_value_heads * options.head_dim;
  ASSIGN_OR_RETURN(products[0], LoadProduct(scope, "q", queries, setting.width));
  ASSIGN_OR_RETURN(products[1], LoadProduct(scope, "k", keys, setting.width));
  ASSIGN_OR_RETURN(products[2], LoadNarrowValues(setting, options, scope));
  return products;
}

// What results are gated by; nothing if they are not.
std::optional<PatternOptions::Gating> ReadGate(JsonFields& fields) {
  using Gating = PatternOptions::Gating;
  const Json& gate = fields.Raw("output_gate");
  if (gate.is_null() || gate == false) return std::nullopt;
  if (gate == "head") return Gating::kHeads;
  if (gate == "head_softplus") return Gating::kHeadsBySoftplus;
  if (gate != true)
    fields.Fail(Cat("output_gate: ", Shown(gate), R"( is none of false, true, "head" and "head_softplus")"));
  return Gating::kNumbers;
}

// Where keys and values are another attention's, its weights would be too.
void CheckLentKeys(const AttentionSetting& setting, const Options& options, JsonFields& fields) {
  if (!setting.keys_lent) return;
  const Json& norm = fields.Raw("qk_norm");
  const bool after_rope = norm.is_object() && norm.value("after_rope", Json()) == true;
  if (fields.Has("relative_bias") || fields.Has("shaw") || fields.Bool("learned_sink", false) ||
      ReadGate(fields).has_value() || options.value_dim < options.head_dim || after_rope) {
    fields.Fail(
        "keys_of: not with relative_bias, shaw, learned_sink, output_gate, value_dim and qk_norm after_rope");
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewSoftmaxAttention(const AttentionSetting& setting,
                                                               JsonFields& fields, const WeightScope& scope) {
  Options options = ReadOptions(setting, fields);
  const double alibi_scale = fields.Number("alibi_scale", 1, kLeastScale, kMostScale),
               alibi = fields.Bool("alibi", false) ? alibi_scale : 0;
  const bool learned_sink = fields.Bool("learned_sink", false);
  const std::optional<PatternOptions::Gating> gating = ReadGate(fields);
  for (const char* key : {"rope", "relative_bias", "shaw", "qk_norm", "position_scale"}) fields.Raw(key);
  const bool by_number = gating == PatternOptions::Gating::kNumbers;
  if ((fields.Has("shaw") || by_number) && options.value_dim < options.head_dim)
    fields.Fail(Cat("value_dim: ", options.value_dim, ": below head_dim; not with shaw or output_gate true"));
  CheckLentKeys(setting, options, fields);
  RETURN_IF_ERROR(fields.Finish());
  RETURN_IF_ERROR(CheckTogether(fields, setting, options));
  ASSIGN_OR_RETURN(options.rotary, ReadRotary(fields, options.head_dim));
  ASSIGN_OR_RETURN(options.position_scale, ReadPositionScale(fields));
  ASSIGN_OR_RETURN(RelativeBias relative, ReadRelativeBias(fields, options, scope));
  options.bias = NewBias(alibi, relative, options.heads);
  options.patterns = {NewPattern(options)};
  ASSIGN_OR_RETURN(std::optional<ShawVectors> shaw, ReadShaw(fields, setting, options, scope));
  if (learned_sink) {
    ASSIGN_OR_RETURN(options.sink_scores, scope.Floats("sink.weight", {options.heads}));
  }
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadSoftmaxProducts(setting, options, scope));
  RETURN_IF_ERROR(FinishProducts(fields, setting, scope, options, products));
  if (gating) {
    options.gate = static_cast<int>(products.size());
    options.gating = *gating;
    const int64_t numbers = by_number ? options.head_dim : 1;
    ASSIGN_OR_RETURN(products.emplace_back(),
                     LoadProduct(scope, "gate", options.heads * numbers, setting.width));
  }
  if (shaw) {
    return std::make_unique<ShawAttention>(setting, std::move(options), std::move(products),
                                           *std::move(shaw));
  }
  if (options.value_dim < options.head_dim)
    return std::make_unique<NarrowAttention>(setting, options, std::move(products));
  return std::make_unique<PatternAttention>(setting, std::move(options), std::move(products));
}

}  // namespace heed
