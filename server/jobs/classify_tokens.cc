#include "server/jobs/classify_tokens.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "engine/base/status.h"
#include "engine/ops/rows.h"
#include "server/jobs/reading.h"

namespace heed {
namespace {

struct Mark {
  bool begins = false;
  std::string_view name;  // the label without its mark
};

Mark Parse(std::string_view label) {
  if (label.starts_with("B-")) return {true, label.substr(2)};
  if (label.starts_with("I-")) return {false, label.substr(2)};
  return {false, label};
}

bool IsEmpty(const std::pair<int32_t, int32_t>& offset) { return offset.first == offset.second; }

class ClassifyTokensJob : public ReadingJob {
 public:
  ClassifyTokensJob(const JobInput& input, Offsets offsets, const ClassifyOptions& options,
                    std::function<void(absl::StatusOr<ClassifiedTokens>)> done)
      : ReadingJob(input, AllRows(input)),
        offsets_(std::move(offsets)),
        options_(options),
        done_(std::move(done)) {
    tokens_.reserve(ids().size());
  }

 private:
  void Read(int64_t, std::span<const float> output) override {
    const auto best = static_cast<int32_t>(ArgMax(output.data(), std::ssize(output)));
    scores_.assign(output.begin(), output.end());
    if (!options_.raw_scores) ToProbabilities(info().multi_label, scores_);
    tokens_.push_back({info().labels[best], best, scores_[best]});
  }

  void Answer(const absl::Status& status) override {
    if (!status.ok()) return done_(status);
    ClassifiedTokens answer{.spans = options_.all_tokens ? EachToken() : JoinSpans(tokens_, offsets_),
                            .usage = Spent()};
    if (!options_.raw_scores) {
      std::erase_if(answer.spans,
                    [&](const LabelledSpan& span) { return span.label.score < options_.threshold; });
    }
    done_(std::move(answer));
  }

  std::vector<LabelledSpan> EachToken() const {
    std::vector<LabelledSpan> spans;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (!IsEmpty(offsets_[i])) spans.push_back({offsets_[i].first, offsets_[i].second, tokens_[i]});
    }
    return spans;
  }

  const Offsets offsets_;
  const ClassifyOptions options_;
  const std::function<void(absl::StatusOr<ClassifiedTokens>)> done_;
  std::vector<LabelScore> tokens_;  // the best label of each
  std::vector<float> scores_;       // of one token
};

}  // namespace

std::vector<LabelledSpan> JoinSpans(const std::vector<LabelScore>& tokens, const Offsets& offsets) {
  std::vector<LabelledSpan> spans;
  int joined = 0;  // tokens of the last span; 0: it is closed
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Mark mark = Parse(tokens[i].label);
    if (mark.name == "O" || IsEmpty(offsets[i])) {
      joined = 0;
      continue;
    }
    if (joined == 0 || mark.begins || spans.back().label.label != mark.name) {
      spans.push_back({offsets[i].first, offsets[i].second, {std::string(mark.name), tokens[i].index, 0}});
      joined = 0;
    }
    LabelledSpan& span = spans.back();
    span.end = offsets[i].second;
    span.label.score += (tokens[i].score - span.label.score) / static_cast<float>(++joined);
  }
  return spans;
}

absl::StatusOr<std::shared_ptr<Job>> NewClassifyTokensJob(
    JobInput input, Offsets offsets, const ClassifyOptions& options,
    std::function<void(absl::StatusOr<ClassifiedTokens>)> done) {
  RETURN_IF_ERROR(Validate(input));
  RETURN_IF_ERROR(Validate(options));
  if (offsets.empty()) {
    for (int32_t i = 0; i < std::ssize(input.ids); ++i) offsets.emplace_back(i, i + 1);
  }
  return std::make_shared<ClassifyTokensJob>(input, std::move(offsets), options, std::move(done));
}

}  // namespace heed
