// In double, as the definition is (oracle/reference/sampling.py); its functions and ours have the same names.
// The row is read a few times, but what is sorted is only what may stay.
#include "engine/generation/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/status.h"
#include "engine/generation/philox.h"
#include "engine/ops/exp.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLargest =
    std::numeric_limits<double>::max();  // what a tiny penalty makes of a logit is no more

// A token that is not removed.
struct Candidate {
  int32_t id;
  double x;        // its logit, scaled
  double p = 0;    // its share of what is left
  double key = 0;  // what a filter orders it by, of equal keys the lower id first
  bool operator<(const Candidate& other) const { return std::pair(key, id) < std::pair(other.key, other.id); }
};
using Candidates = std::vector<Candidate>;  // in the order of their ids; never empty

bool LowerId(const Candidate& a, const Candidate& b) { return a.id < b.id; }

// Sets p; returns the logarithm of the sum that it divides by.
double Softmax(Candidates& candidates) {
  double largest = -kInfinity, sum = 0;
  for (const Candidate& c : candidates) largest = std::max(largest, c.x);
  std::vector<double> terms(candidates.size());
  for (size_t i = 0; i < terms.size(); ++i) terms[i] = candidates[i].x - largest;
  Exp(terms.data(), std::ssize(terms));
  for (double term : terms) sum += term;
  for (size_t i = 0; i < terms.size(); ++i) candidates[i].p = terms[i] / sum;
  return largest + std::log(sum);
}

// Of all numbers the k-th largest, k at most their count. Gathers 2k, drops the lower half, and so on.
double KthLargest(const std::vector<double>& numbers, size_t k) {
  std::vector<double> best;
  best.reserve(2 * k);
  double kth = -kInfinity;
  const auto halve = [&] {
    std::nth_element(best.begin(), best.begin() + (k - 1), best.end(), std::greater<>());
    best.resize(k);
    kth = best.back();
  };
  for (double number : numbers) {
    if (number <= kth) continue;
    best.push_back(number);
    if (best.size() == 2 * k) halve();
  }
  if (best.size() >= k) halve();
  return kth;
}

// Goes through the candidates, the least first, until their sum of p reaches `mass`: the last one. Leaves a
// heap.
Candidate LastUntil(Candidates& candidates, double mass) {
  const auto greater = [](const Candidate& a, const Candidate& b) { return b < a; };
  std::make_heap(candidates.begin(), candidates.end(), greater);
  double sum = 0;
  auto rest = candidates.end();
  do {
    std::pop_heap(candidates.begin(), rest--, greater);
    sum += rest->p;
    // The definition's sum before the next: with it, and taken off again.
  } while (rest != candidates.begin() && (sum + candidates[0].p) - candidates[0].p < mass);
  return *rest;
}

void TypicalP(Candidates& candidates, double mass) {
  const double log_sum = Softmax(candidates);
  double entropy = 0;
  for (const Candidate& c : candidates) entropy -= c.p > 0 ? c.p * (c.x - log_sum) : 0;
  for (Candidate& c : candidates) c.key = std::abs(log_sum - c.x - entropy);
  const Candidate last = LastUntil(candidates, mass);
  std::erase_if(candidates, [&](const Candidate& c) { return c.key > last.key; });
  std::sort(candidates.begin(), candidates.end(), LowerId);
}

// A share such that the tokens with at least this much have more than `mass` together: a power of two, the
// largest.
double SufficientShare(const Candidates& candidates, double mass) {
  constexpr int kPowers = 64;
  std::array<double, kPowers> sums{};  // of the shares of 2^-i to 2 * 2^-i
  for (const Candidate& c : candidates) {
    if (c.p >= 0x1p-63) sums[-std::ilogb(c.p)] += c.p;
  }
  double sum = -1e-9;  // to be safe from rounding
  for (int i = 0; i < kPowers; ++i) {
    sum += sums[i];
    if (sum > mass) return std::ldexp(1, -i);
  }
  return 0;
}

void TopP(Candidates& candidates, double mass) {
  Softmax(candidates);
  const double share = SufficientShare(candidates, mass);
  std::erase_if(candidates, [&](const Candidate& c) { return c.p < share; });
  for (Candidate& c : candidates) c.key = -c.p;
  const Candidate last = LastUntil(candidates, mass);
  std::erase_if(candidates, [&](const Candidate& c) { return last < c; });
  std::sort(candidates.begin(), candidates.end(), LowerId);
}

void MinP(Candidates& candidates, double share) {
  Softmax(candidates);
  double largest = 0;
  for (const Candidate& c : candidates) largest = std::max(largest, c.p);
  std::erase_if(candidates, [&](const Candidate& c) { return c.p < share * largest; });
}

// What is left of penalised logits, with its shares; nothing if nothing is. Temperature is above 0.
Candidates Distribution(std::vector<double> x, const SamplingOptions& options) {
  const double largest = *std::max_element(x.begin(), x.end());
  if (largest == -kInfinity) return {};
  for (double& number : x) number = (number - largest) / options.temperature;
  const bool some = options.top_k > 0 && options.top_k < std::ssize(x);
  const double least = some ? KthLargest(x, options.top_k) : -kInfinity;
  Candidates candidates;
  candidates.reserve(some ? options.top_k : x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] >= least && x[i] > -kInfinity) candidates.push_back({static_cast<int32_t>(i), x[i]});
  }
  if (options.typical_p < 1) TypicalP(candidates, options.typical_p);
  if (options.top_p < 1) TopP(candidates, options.top_p);
  if (options.min_p > 0) MinP(candidates, options.min_p);
  Softmax(candidates);
  return candidates;
}

// The candidate at `uniform` of the way through their shares.
int32_t Draw(const Candidates& candidates, double uniform) {
  for (const Candidate& c : candidates) {
    uniform -= c.p;
    if (uniform < 0 && c.p > 0) return c.id;
  }
  // Rounding: the shares came to a little less than 1.
  return std::find_if(candidates.rbegin(), candidates.rend(), [](const Candidate& c) { return c.p > 0; })->id;
}

// Whatever the model has removed may be -infinity, but not all; nothing else may be.
absl::Status CheckLogits(std::span<const float> logits) {
  if (AllFinite(logits.data(), std::ssize(logits))) return absl::OkStatus();
  if (std::ranges::all_of(logits, [](float logit) { return logit == -kInfinity; }))
    return absl::InternalError("the model gave logit -inf for every token");
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] < kInfinity) continue;
    return absl::InternalError(Cat("the model gave logit ", logits[i], " for token ", i));
  }
  return absl::OkStatus();
}

// Under the model's own distribution, whatever the options made of it.
TokenChoice Choice(int32_t token, std::span<const float> logits, int32_t top) {
  const double log_sum = LogSumExp(logits.data(), std::ssize(logits));
  const auto logprob = [&](int32_t id) { return static_cast<float>(logits[id] - log_sum); };
  TokenChoice choice{token, logprob(token)};
  if (top == 0) return choice;
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto end = ids.begin() + std::min<ptrdiff_t>(top, std::ssize(ids));
  std::partial_sort(ids.begin(), end, ids.end(), [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  for (auto id = ids.begin(); id != end; ++id) choice.top.emplace_back(*id, logprob(*id));
  return choice;
}

// Zero, or a normal number: no NaN, no infinity, no -0, nothing too small to compute with.
template <typename Float>
bool Plain(Float value) {
  return std::isnormal(value) || (value == 0 && !std::signbit(value));
}

struct Limits {
  double min, max;
  bool without_min = false;
};

template <typename Float>
absl::Status CheckNumber(std::string_view field, Float value, const Limits& limits) {
  if (!Plain(value)) return Invalid(field, ": ", value, " is not a plain number");
  if (value < limits.min) return Invalid(field, ": ", value, " is below ", limits.min);
  if (value > limits.max) return Invalid(field, ": ", value, " is above ", limits.max);
  if (limits.without_min && value == limits.min)
    return Invalid(field, ": ", value, " is not above ", limits.min);
  return absl::OkStatus();
}

absl::Status CheckBias(const SamplingOptions& options, int64_t vocab_size) {
  if (std::ssize(options.logit_bias) > kMaxBiases) {
    return Invalid("sampling.logit_bias: ", options.logit_bias.size(), " entries are above ", kMaxBiases);
  }
  for (const auto& [id, bias] : options.logit_bias) {
    if (id < 0 || id >= vocab_size)
      return Invalid("sampling.logit_bias: id ", id, " is not in [0, ", vocab_size, ")");
    RETURN_IF_ERROR(CheckNumber(Cat("sampling.logit_bias[", id, "]"), bias, {-100, 100}));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const SamplingOptions& options, int64_t vocab_size) {
  RETURN_IF_ERROR(CheckBias(options, vocab_size));
  RETURN_IF_ERROR(CheckNumber("sampling.repetition_penalty", options.repetition_penalty, {0, 10, true}));
  RETURN_IF_ERROR(CheckNumber("sampling.presence_penalty", options.presence_penalty, {-2, 2}));
  RETURN_IF_ERROR(CheckNumber("sampling.frequency_penalty", options.frequency_penalty, {-2, 2}));
  RETURN_IF_ERROR(CheckNumber("sampling.temperature", options.temperature, {0, 100}));
  RETURN_IF_ERROR(CheckNumber("sampling.typical_p", options.typical_p, {0, 1, true}));
  RETURN_IF_ERROR(CheckNumber("sampling.top_p", options.top_p, {0, 1}));
  RETURN_IF_ERROR(CheckNumber("sampling.min_p", options.min_p, {0, 1}));
  if (options.top_k < 0) return Invalid("sampling.top_k: ", options.top_k, " is below 0");
  if (options.top_k > vocab_size) return Invalid("sampling.top_k: ", options.top_k, " is above ", vocab_size);
  if (options.min_tokens < 0) return Invalid("stopping.min_tokens: ", options.min_tokens, " is below 0");
  if (options.top_logprobs < 0) return Invalid("details.top_logprobs: ", options.top_logprobs, " is below 0");
  if (options.top_logprobs > kMaxTopLogprobs) {
    return Invalid("details.top_logprobs: ", options.top_logprobs, " is above ", kMaxTopLogprobs);
  }
  return absl::OkStatus();
}

double UniformAt(uint64_t seed, uint64_t stream, uint64_t index) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  const auto words = Philox({low(index), high(index), low(stream), high(stream)}, {low(seed), high(seed)});
  return static_cast<double>((uint64_t{words[1]} << 32 | words[0]) >> 11) * 0x1p-53;
}

Sampler::Sampler(SamplingOptions options, std::vector<int32_t> eos_token_ids, std::span<const int32_t> prompt,
                 uint64_t stream, TokenRuling ruling)
    : options_(std::move(options)), eos_(std::move(eos_token_ids)), stream_(stream), ruling_(ruling) {
  for (int32_t id : prompt) seen_[id] = 0;
}

void Sampler::Remember(int32_t token) {
  generated_.push_back(token);
  ++seen_[token];
}

bool Sampler::TooShort() const { return std::ssize(generated_) < options_.min_tokens; }

std::vector<double> Sampler::Penalised(std::span<const float> logits) const {
  std::vector<double> x(logits.begin(), logits.end());
  for (const auto& [id, bias] : options_.logit_bias) x[id] += bias;
  for (const auto& [id, count] : seen_) {
    x[id] = x[id] < 0 ? x[id] * options_.repetition_penalty
                      : std::min(x[id] / options_.repetition_penalty, kLargest);
    if (count > 0) x[id] -= options_.presence_penalty + count * options_.frequency_penalty;
  }
  if (TooShort()) {
    for (int32_t id : eos_) x[id] = -kInfinity;
  }
  if (ruling_.acts()) Rule(x);
  if (options_.choices > 0) std::fill(x.begin() + options_.choices, x.end(), -kInfinity);
  return x;
}

void Sampler::Rule(std::vector<double>& x) const {
  const TokenRuling::Verdict verdict = ruling_.After(generated_);
  for (const int32_t id : verdict.removed) x[id] = -kInfinity;
  if (verdict.only.empty()) return;
  std::ranges::fill(x, -kInfinity);
  for (const int32_t id : verdict.only) x[id] = 0;
}

// End tokens are removed while the text is too short, others by the rules, and what is no choice always.
absl::Status Sampler::NoTokenLeft() const {
  if (TooShort()) {
    return absl::FailedPreconditionError(
        Cat("min_tokens is ", options_.min_tokens,
            ", and before that the model gives end tokens only: ask for fewer"));
  }
  if (ruling_.acts())
    return absl::FailedPreconditionError("the token_rules of the model leave no token that may come next");
  return absl::InternalError(Cat("the model gave logit -inf for every token below ", options_.choices));
}

bool Sampler::Penalises() const {
  return !options_.logit_bias.empty() || options_.repetition_penalty != 1 || options_.presence_penalty != 0 ||
         options_.frequency_penalty != 0 || options_.choices > 0 || TooShort() || ruling_.acts();
}

absl::StatusOr<int32_t> Sampler::Greedy(std::span<const float> logits) const {
  if (!Penalises()) {
    const auto best = static_cast<int32_t>(ArgMax(logits.data(), std::ssize(logits)));
    return best;
  }
  const std::vector<double> x = Penalised(logits);
  const auto best = std::max_element(x.begin(), x.end());
  if (*best == -kInfinity) return NoTokenLeft();
  return static_cast<int32_t>(best - x.begin());
}

absl::StatusOr<int32_t> Sampler::Random(std::span<const float> logits) const {
  const Candidates candidates = Distribution(Penalised(logits), options_);
  if (candidates.empty()) return NoTokenLeft();
  return Draw(candidates, UniformAt(options_.seed, stream_, generated_.size()));
}

absl::StatusOr<TokenChoice> Sampler::Next(std::span<const float> logits) {
  RETURN_IF_ERROR(CheckLogits(logits));
  ASSIGN_OR_RETURN(const int32_t token, options_.temperature == 0 ? Greedy(logits) : Random(logits));
  Remember(token);
  return Choice(token, logits, options_.top_logprobs);
}

absl::StatusOr<std::vector<double>> Sampler::Probabilities(std::span<const float> logits) const {
  RETURN_IF_ERROR(CheckLogits(logits));
  std::vector<double> probabilities(logits.size());
  if (options_.temperature == 0) {
    ASSIGN_OR_RETURN(const int32_t token, Greedy(logits));
    probabilities[token] = 1;
  } else {
    const Candidates candidates = Distribution(Penalised(logits), options_);
    if (candidates.empty()) return NoTokenLeft();
    for (const Candidate& c : candidates) probabilities[c.id] = c.p;
  }
  return probabilities;
}

}  // namespace heed
