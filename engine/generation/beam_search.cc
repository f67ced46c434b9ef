#include "engine/generation/beam_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "engine/ops/rows.h"

namespace heed {

absl::Status Validate(const BeamOptions& options) {
  if (options.width < 0 || options.width > kMaxBeams) {
    return Invalid("beam.width: ", options.width, " is not in 0 .. ", kMaxBeams);
  }
  if (!(std::abs(options.length_penalty) <= 10)) {
    return Invalid("beam.length_penalty: ", options.length_penalty, " is not in -10 .. 10");
  }
  if (options.results < 1 || options.results > std::max(options.width, 1)) {
    return Invalid("beam.results: ", options.results, " is not in 1 .. ", std::max(options.width, 1),
                   ", the width");
  }
  return absl::OkStatus();
}

BeamSearch::BeamSearch(const BeamOptions& options, std::vector<int32_t> end_tokens, int64_t max_tokens,
                       TokenRuling ruling)
    : options_(options), end_tokens_(std::move(end_tokens)), max_tokens_(max_tokens), ruling_(ruling) {
  CHECK(options_.width > 0 && max_tokens_ > 0) << options_.width << " " << max_tokens_;
}

bool BeamSearch::Before(const Candidate& a, const Candidate& b) {
  return std::tuple(-a.sum, a.parent, a.token) < std::tuple(-b.sum, b.parent, b.token);
}

bool BeamSearch::IsEnd(int32_t token) const {
  return std::ranges::find(end_tokens_, token) != end_tokens_.end();
}

void BeamSearch::Read(int i, std::span<const float> logits) {
  Live& live = live_[i];
  const double sum_exp = LogSumExp(logits.data(), std::ssize(logits));
  live.broken = !std::isfinite(sum_exp);
  if (live.broken) return;
  if (!Rules()) return Rank(i, logits, sum_exp);
  std::vector<float> ruled(logits.begin(), logits.end());
  const std::vector<int32_t> forced = Rule(live.node, ruled);
  for (const int32_t token : forced)
    live.best.push_back({live.sum, i, token, static_cast<float>(logits[token] - sum_exp)});
  if (!forced.empty()) return;
  const double left = LogSumExp(ruled.data(), std::ssize(ruled));
  if (std::isfinite(left)) Rank(i, ruled, options_.renormalize ? left : sum_exp);
}

bool BeamSearch::Rules() const {
  return ruling_.acts() || (length_ < options_.min_tokens && !end_tokens_.empty());
}

std::vector<int32_t> BeamSearch::Rule(int node, std::vector<float>& logits) const {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  if (length_ < options_.min_tokens)
    for (const int32_t id : end_tokens_) logits[id] = kNever;
  TokenRuling::Verdict verdict;
  if (ruling_.acts()) verdict = ruling_.After(TextOf(node));
  for (const int32_t id : verdict.removed) logits[id] = kNever;
  return verdict.only;
}

std::vector<int32_t> BeamSearch::TextOf(int node) const {
  std::vector<int32_t> text;
  for (int at = node; at >= 0; at = nodes_[at].parent) text.push_back(nodes_[at].token);
  std::ranges::reverse(text);
  return text;
}

// The walk meets `width` tokens that go on before it is past a parent's `width` + end tokens best.
void BeamSearch::Rank(int i, std::span<const float> logits, double sum_exp) {
  Live& live = live_[i];
  const size_t most = options_.width + end_tokens_.size();
  std::vector<Candidate>& best = live.best;  // a heap, the worst on top
  best.reserve(most + 1);
  const int64_t choices = options_.choices > 0 ? options_.choices : std::ssize(logits);
  for (int32_t token = 0; token < choices; ++token) {
    const double logprob = logits[token] - sum_exp;
    if (std::isinf(logprob)) continue;
    const Candidate candidate{live.sum + logprob, i, token, static_cast<float>(logprob)};
    if (best.size() == most && !Before(candidate, best.front())) continue;
    best.push_back(candidate);
    std::ranges::push_heap(best, Before);
    if (best.size() <= most) continue;
    std::ranges::pop_heap(best, Before);
    best.pop_back();
  }
}

absl::StatusOr<std::vector<BeamSearch::Extension>> BeamSearch::Advance() {
  ++length_;
  std::vector<Candidate> ranked;
  for (const Live& live : live_) {
    if (live.broken) return absl::InternalError("the model's logits are not finite");
    ranked.insert(ranked.end(), live.best.begin(), live.best.end());
  }
  std::ranges::sort(ranked, Before);
  std::vector<Extension> extensions;
  Walk(ranked, extensions);
  KeepBest();
  if (Over()) {
    live_.clear();
  } else if (length_ == max_tokens_) {
    for (const Live& live : live_) ended_.push_back({Score(live.sum), live.node, false});
    live_.clear();
    KeepBest();
  }
  if (live_.empty()) extensions.clear();
  return extensions;
}

bool BeamSearch::Over() const {
  if (live_.empty()) return true;
  if (std::ssize(ended_) < options_.width) return false;
  return options_.early_stopping || Score(live_.front().sum) <= ended_.back().score;
}

void BeamSearch::Walk(const std::vector<Candidate>& ranked, std::vector<Extension>& extensions) {
  std::vector<Live> next;
  for (size_t place = 0; place < ranked.size() && std::ssize(next) < options_.width; ++place) {
    const Candidate& candidate = ranked[place];
    const bool end = IsEnd(candidate.token);
    if (end && std::cmp_greater_equal(place, options_.width)) continue;
    const int node = static_cast<int>(nodes_.size());
    nodes_.push_back({live_[candidate.parent].node, candidate.token, candidate.logprob});
    if (end) {
      ended_.push_back({Score(candidate.sum), node, true});
    } else {
      next.push_back({.sum = candidate.sum, .node = node, .best = {}});
      extensions.push_back({candidate.parent, candidate.token});
    }
  }
  live_ = std::move(next);
}

void BeamSearch::KeepBest() {
  std::ranges::stable_sort(ended_, std::greater(), &Ended::score);
  if (std::ssize(ended_) > options_.width) ended_.resize(options_.width);
}

double BeamSearch::Score(double sum) const {
  return sum / std::pow(static_cast<double>(length_), options_.length_penalty);
}

std::vector<BeamSearch::Hypothesis> BeamSearch::Results() const {
  std::vector<Hypothesis> results;
  for (const Ended& ended : ended_) {
    Hypothesis& result = results.emplace_back(Hypothesis{.score = ended.score, .ended = ended.by_token});
    for (int at = ended.node; at >= 0; at = nodes_[at].parent) {
      result.tokens.push_back(nodes_[at].token);
      result.logprobs.push_back(nodes_[at].logprob);
    }
    std::ranges::reverse(result.tokens);
    std::ranges::reverse(result.logprobs);
  }
  return results;
}

}  // namespace heed
