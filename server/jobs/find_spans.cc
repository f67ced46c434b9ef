#include "server/jobs/find_spans.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include "engine/base/status.h"

namespace heed {
namespace {

// Of a token's logit, among all where an answer may stand.
class Probabilities {
 public:
  Probabilities(std::span<const float> logits, const SpanPlace& place) : logits_(logits) {
    const auto all = logits.subspan(place.begin, place.end - place.begin);
    largest_ = *std::ranges::max_element(all);
    if (place.none >= 0) largest_ = std::max<double>(largest_, logits[place.none]);
    for (const float logit : all) sum_ += std::exp(logit - largest_);
    if (place.none >= 0) sum_ += std::exp(logits[place.none] - largest_);
  }
  double operator()(int64_t token) const { return std::exp(logits_[token] - largest_) / sum_; }

 private:
  const std::span<const float> logits_;
  double largest_ = 0, sum_ = 0;
};

bool Better(const FoundSpan& a, const FoundSpan& b) {
  if (a.score != b.score) return a.score > b.score;
  return std::pair(a.first, a.last) < std::pair(b.first, b.last);
}

class FindSpansJob : public AnsweringJob<FoundSpans> {
 public:
  FindSpansJob(const JobInput& input, const SpanPlace& place, const SpanOptions& options, Done done)
      : AnsweringJob(input, AllRows(input), std::move(done)), place_(place), options_(options) {
    starts_.reserve(ids().size());
    ends_.reserve(ids().size());
  }

  FoundSpans Answer() override {
    FoundSpans found = BestSpans(starts_, ends_, place_, options_);
    found.usage = Spent();
    return found;
  }

 private:
  void Read(int64_t, std::span<const float> output) override {
    starts_.push_back(output[0]);
    ends_.push_back(output[1]);
  }

  const SpanPlace place_;
  const SpanOptions options_;
  std::vector<float> starts_, ends_;  // of each token
};

}  // namespace

FoundSpans BestSpans(std::span<const float> starts, std::span<const float> ends, const SpanPlace& place,
                     const SpanOptions& options) {
  const Probabilities begins(starts, place), ends_here(ends, place);
  std::vector<double> end_scores(place.end - place.begin);
  for (int64_t i = place.begin; i < place.end; ++i) end_scores[i - place.begin] = ends_here(i);
  std::priority_queue<FoundSpan, std::vector<FoundSpan>, decltype(&Better)> best(
      &Better);  // the worst on top
  for (int64_t first = place.begin; first < place.end; ++first) {
    const double begin_score = begins(first);
    for (int64_t last = first; last < std::min(place.end, first + options.max_tokens); ++last) {
      const FoundSpan span{first, last, begin_score * end_scores[last - place.begin]};
      if (static_cast<int64_t>(best.size()) == options.top) {
        if (!Better(span, best.top())) continue;
        best.pop();
      }
      best.push(span);
    }
  }
  FoundSpans found;
  for (; !best.empty(); best.pop()) found.spans.push_back(best.top());
  std::ranges::reverse(found.spans);
  if (place.none >= 0) found.none = begins(place.none) * ends_here(place.none);
  return found;
}

int64_t AnswerBytes(const SpanOptions& options, int64_t tokens) {
  const int64_t logits = 2 * static_cast<int64_t>(sizeof(float)), scores = sizeof(double);
  return sizeof(FoundSpans) + 5 * kListBytes + tokens * (logits + scores) +
         3 * options.top * static_cast<int64_t>(sizeof(FoundSpan));
}

absl::StatusOr<std::shared_ptr<Job>> NewFindSpansJob(JobInput input, const SpanPlace& place,
                                                     const SpanOptions& options,
                                                     AnsweringJob<FoundSpans>::Done done) {
  RETURN_IF_ERROR(Validate(input));
  return std::make_shared<FindSpansJob>(input, place, options, std::move(done));
}

}  // namespace heed
