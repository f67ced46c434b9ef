// The score, the value and the sink of "softmax" with all its options, written out once more.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>

#include "engine/attention/t5_buckets.h"
#include "tests/engine/attention/definitions.h"

namespace heed {
namespace {

using Vector = std::vector<double>;

// A key-value head for some query heads.
int KeyHead(const Pair& at) {
  return at.head / (at.heads() / at.options().value("num_key_value_heads", at.heads()));
}

// ---------------------------------------------------------------------------------------------- rotation

double Llama3(const Json& scaling, double f) {
  const double factor = scaling["factor"], length = scaling["original_max_position_embeddings"],
               low = scaling["low_freq_factor"], high = scaling["high_freq_factor"],
               wavelength = 2 * std::numbers::pi / f;
  if (wavelength > length / low) return f / factor;
  if (wavelength < length / high) return f;
  const double smooth = (length / wavelength - low) / (high - low);
  return (1 - smooth) * f / factor + smooth * f;
}

double Yarn(const Json& scaling, double f, double theta, double t, double dims) {
  const auto pair = [&](double turns) {
    const double length = scaling["original_max_position_embeddings"];
    return dims * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  double low = pair(scaling.value("beta_fast", 32.0)), high = pair(scaling.value("beta_slow", 1.0));
  if (scaling.value("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1);
  const double ramp = std::clamp((t - low) / (high > low ? high - low : 0.001), 0.0, 1.0);
  return f / scaling["factor"].get<double>() * ramp + f * (1 - ramp);
}

// What pair t turns by at each position.
double Frequency(const Json& rope, int64_t t, int64_t dims) {
  const double theta = rope.value("theta", 10000.0), pair = static_cast<double>(t),
               all = static_cast<double>(dims), f = std::pow(theta, -2 * pair / all);
  if (!rope.contains("scaling")) return f;
  const Json& scaling = rope["scaling"];
  if (scaling["type"] == "llama3") return Llama3(scaling, f);
  if (scaling["type"] == "yarn") return Yarn(scaling, f, theta, pair, all);
  if (scaling["type"] == "longrope") return f / scaling["factors"][t].get<double>();
  if (scaling["type"] == "proportional") return pair + 1 <= scaling["share"].get<double>() * all / 2 ? f : 0;
  return f / scaling["factor"].get<double>();
}

// What turned numbers are multiplied by.
double AttentionFactor(const Json& rope) {
  const Json scaling = rope.value("scaling", Json::object());
  if (scaling.contains("attention_factor")) return scaling["attention_factor"];
  if (scaling.value("type", "") != "yarn") return 1;
  const auto mscale = [&](double m) { return 0.1 * m * std::log(scaling["factor"].get<double>()) + 1; };
  if (scaling.contains("mscale") && scaling.contains("mscale_all_dim"))
    return mscale(scaling["mscale"]) / mscale(scaling["mscale_all_dim"]);
  return mscale(1);
}

Vector Turned(const Pair& at, const Json& rope, Vector x, int64_t position, bool interleaved) {
  const int64_t dims = rope.value("dims", at.options().value("rope_dim", at.dim()));
  const double factor = AttentionFactor(rope);
  for (int64_t t = 0; t < dims / 2; ++t) {
    const double angle = static_cast<double>(position) * Frequency(rope, t, dims);
    double &a = x[interleaved ? 2 * t : t], &b = x[interleaved ? 2 * t + 1 : t + dims / 2];
    const double turned = factor * (a * std::cos(angle) - b * std::sin(angle));
    b = factor * (a * std::sin(angle) + b * std::cos(angle));
    a = turned;
  }
  return x;
}

Vector Turned(const Pair& at, Vector x, int64_t position) {
  const auto rope = at.options().find("rope");
  if (rope == at.options().end()) return x;
  return Turned(at, *rope, std::move(x), position, rope->value("layout", "half") == "interleaved");
}

// ------------------------------------------------------------------------------------ queries and keys

double Clipped(const Pair& at, double x) {
  const double clip = at.options().value("clip_qkv", 0.0);
  return clip > 0 ? std::clamp(x, -clip, clip) : x;
}

// Normed; `first`: the tensors' number that belongs to x[0].
Vector Normed(const Pair& at, const std::string& name, const Vector& x, int64_t first) {
  const Json& o = at.options()["qk_norm"];
  const bool layer = o.value("type", "rms") == "layer";
  const auto n = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (double v : x) mean += layer ? v / n : 0;
  for (double v : x) variance += (v - mean) * (v - mean) / n;
  const auto tensor = [&](const char* part, int64_t t) {
    return static_cast<double>(at.layer().tensor(name + part)[first + t]);
  };
  Vector y;
  for (int64_t t = 0; t < std::ssize(x); ++t) {
    const double weight = o.value("weight", true) ? tensor(".weight", t) : 1;
    const double bias = o.value("bias", false) ? tensor(".bias", t) : 0;
    y.push_back((x[t] - mean) / std::sqrt(variance + o.value("eps", 1e-5)) * weight + bias);
  }
  return y;
}

// A head of a row of queries or keys, as it meets others.
Vector Ready(const Pair& at, const OwnedRows& rows, int64_t r, int head, const std::string& norm,
             int64_t position) {
  const Json o = at.options().value("qk_norm", Json());
  const int64_t dim = at.dim();
  Vector all;
  const bool clipped_last = at.options().value("clip_normed", false);
  const auto clipped = [&](double v) { return Clipped(at, v); };
  for (int64_t c = 0; c < rows.rows().cols; ++c)
    all.push_back(clipped_last ? rows.At(r, c) : Clipped(at, rows.At(r, c)));
  const bool together = o.is_object() && o.value("over", "head") == "all",
             late = o.is_object() && o.value("after_rope", false);
  if (together) all = Normed(at, norm, all, 0);
  Vector x(all.begin() + head * dim, all.begin() + (head + 1) * dim);
  const auto normed = [&] {
    return Normed(at, norm, x, o.value("per_head", false) ? head * dim : int64_t{0});
  };
  if (o.is_object() && !together && !late) x = normed();
  if (clipped_last) std::ranges::transform(x, x.begin(), clipped);
  x = Turned(at, x, position);
  return late ? normed() : x;
}

// ------------------------------------------------------------------------------- what is added by distance

// ALiBi's, which is not 2^(-8 (head + 1) / heads) where the heads are no power of 2.
double Slope(int head, int heads) {
  const int p = 1 << static_cast<int>(std::log2(heads));
  return head < p ? std::pow(2.0, -8.0 * (head + 1) / p)
                  : std::pow(2.0, -8.0 * (2 * (head - p) + 1) / (2 * p));
}

// What is added at a distance.
Sum DistanceBias(const Pair& at, int64_t distance) {
  const Json& o = at.options();
  Sum bias;
  if (o.value("alibi", false))
    bias.Add(-o.value("alibi_scale", 1.0) * Slope(at.head, at.heads()) *
             static_cast<double>(std::abs(distance)));
  if (!o.contains("relative_bias")) return bias;
  const T5Buckets buckets(o["relative_bias"]["buckets"], o["relative_bias"]["max_distance"],
                          !at.layer().causal());
  bias.Add(at.layer().tensor("relative_bias")[buckets.Bucket(distance) * at.heads() + at.head]);
  return bias;
}

double PositionScale(const Pair& at) {
  const Json scale = at.options().value("position_scale", Json());
  if (scale.is_null()) return 1;
  const auto times = static_cast<double>(at.i / scale["length"].get<int64_t>());
  return 1 + scale["beta"].get<double>() * std::log(1 + times);
}

// Shaw's vector of the pair, in the table of this name.
double ShawVector(const Pair& at, const char* name, int64_t t) {
  const Json& shaw = at.options()["shaw"];
  const int64_t clip = shaw["max_distance"], table = shaw.value("per_head", false) ? at.head : 0;
  const int64_t row = table * (2 * clip + 1) + std::clamp(at.j - at.i, -clip, clip) + clip;
  return at.layer().tensor(name)[row * at.dim() + t];
}

}  // namespace

// With sinks that are near by the cache, a row far from them is as far as the cache is long.
Sum SoftmaxScore(const Pair& at) {
  const Json& o = at.options();
  const int64_t sinks = o.value("sinks", int64_t{0});
  const bool cached = at.j < sinks && o.value("sink_positions", "cache") == "cache";
  const int64_t place = cached ? std::min(at.i, sinks + o["window"].get<int64_t>() - 1) : at.i;
  const Vector q = Ready(at, at.passage->product(0), at.i, at.head, "q_norm", place);
  Vector k = Ready(at, at.passage->product(1), at.j, KeyHead(at), "k_norm", at.j);
  for (int64_t t = 0; t < at.dim() && o.contains("shaw"); ++t) k[t] += ShawVector(at, "shaw_keys", t);
  Sum score = Dot(q, k) * o.value("scale", 1 / std::sqrt(static_cast<double>(at.dim()))) * PositionScale(at);
  if (const double cap = o.value("soft_cap", 0.0); cap > 0) score.value = cap * std::tanh(score.value / cap);
  const Sum bias = DistanceBias(at, place - at.j);
  return {score.value + bias.value, score.size + bias.size};
}

double SoftmaxValue(const Pair& at, int64_t t) {
  const Json& o = at.options();
  const bool shaw = o.contains("shaw") && o["shaw"].value("values", true);
  const Vector values = HeadOf(at.passage->product(2), at.j, KeyHead(at), at.dim());
  double root = 1;
  if (o.value("v_norm", false))
    root = std::sqrt(Dot(values, values).value / static_cast<double>(at.dim()) + 1e-5);
  const double value = Clipped(at, values[t]) / root + (shaw ? ShawVector(at, "shaw_values", t) : 0);
  const Json gate = o.value("output_gate", Json(false));
  if (gate == false) return value;
  if (gate == "head_softplus")
    return value * std::log1p(std::exp(ProductOf(*at.passage, "gate").At(at.i, at.head)));
  // Of the row that reads it: its results are as if all that it reads were so much less.
  const int64_t column = gate == "head" ? at.head : at.head * at.dim() + t;
  return value / (1 + std::exp(-ProductOf(*at.passage, "gate").At(at.i, column)));
}

// Numbers of an index, which turn as the shared part does, but in a layout of their own.
std::vector<double> TurnedIndex(const Pair& at, std::vector<double> x, int64_t position) {
  const Json& o = at.options();
  if (!o.contains("rope")) return x;
  const Json rope = o["rope"];
  return Turned(at, rope, std::move(x), position, o["index"].value("layout", "half") == "interleaved");
}

// What a row is remembered as: the shared part of keys, then the latent, normed.
Vector Remembered(const Pair& at) {
  const Json& o = at.options();
  Vector x = HeadOf(ProductOf(*at.passage, "kv"), at.j, 0, at.dim());
  const int64_t shared = o.value("rope_dim", int64_t{0});
  double square = 0;
  for (int64_t t = shared; t < at.dim(); ++t) square += x[t] * x[t];
  const double root =
      std::sqrt(square / static_cast<double>(at.dim() - shared) + o.value("latent_eps", 1e-6));
  for (int64_t t = shared; t < at.dim(); ++t) x[t] *= at.layer().tensor("kv_norm.weight")[t - shared] / root;
  return x;
}

Sum LatentScore(const Pair& at) {
  const Json& o = at.options();
  const double numbers = o["key_dim"].get<double>() + o.value("rope_dim", 0.0);
  const Vector q = HeadOf(ProductOf(*at.passage, "absorbed"), at.i, at.head, at.dim());
  return Dot(Turned(at, q, at.i), Turned(at, Remembered(at), at.j)) *
         o.value("scale", 1 / std::sqrt(numbers)) * PositionScale(at);
}

double LatentValue(const Pair& at, int64_t t) {
  const double value = Remembered(at)[t];
  if (!at.options().contains("output_gate")) return value;
  return value / (1 + std::exp(-ProductOf(*at.passage, "gate").At(at.i, at.head)));
}

// A key of this score, whose value is 0.
void AddSink(const Passage& passage, int64_t i, int head, DefinedSoftmax& softmax) {
  const Pair at{&passage, i, 0, head};
  if (!at.options().value("learned_sink", false)) return;
  Sum score;
  score.Add(at.layer().tensor("sink.weight")[head]);
  softmax.Add(score, [](int64_t) { return 0.0; });
}

}  // namespace heed
