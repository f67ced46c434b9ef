#include "server/jobs/classify_tokens.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "engine/base/status.h"
#include "engine/ops/rows.h"

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

class ClassifyTokensJob : public AnsweringJob<ClassifiedTokens> {
 public:
  ClassifyTokensJob(const JobInput& input, Offsets offsets, const ClassifyOptions& options, Done done)
      : AnsweringJob(input, AllRows(input), std::move(done)),
        offsets_(std::move(offsets)),
        options_(options) {
    best_.reserve(ids().size());
  }

  ClassifiedTokens Answer() override {
    ClassifiedTokens answer{.spans = options_.all_tokens ? EachToken() : JoinSpans(Labels(), offsets_),
                            .usage = Spent()};
    if (!options_.raw_scores) {
      std::erase_if(answer.spans,
                    [&](const LabelledSpan& span) { return span.label.score < options_.threshold; });
    }
    return answer;
  }

 private:
  // The best label of a token.
  struct Best {
    int32_t index;
    float score;
  };

  void Read(int64_t, std::span<const float> output) override {
    const auto best = static_cast<int32_t>(ArgMax(output.data(), std::ssize(output)));
    scores_.assign(output.begin(), output.end());
    if (!options_.raw_scores) ToProbabilities(info().multi_label, scores_);
    best_.push_back({best, scores_[best]});
  }

  LabelScore LabelOf(const Best& best) const { return {info().labels[best.index], best.index, best.score}; }

  std::vector<LabelScore> Labels() const {
    std::vector<LabelScore> labels;
    labels.reserve(best_.size());
    for (const Best& best : best_) labels.push_back(LabelOf(best));
    return labels;
  }

  std::vector<LabelledSpan> EachToken() const {
    std::vector<LabelledSpan> spans;
    spans.reserve(best_.size());
    for (size_t i = 0; i < best_.size(); ++i) {
      if (!IsEmpty(offsets_[i])) spans.push_back({offsets_[i].first, offsets_[i].second, LabelOf(best_[i])});
    }
    return spans;
  }

  const Offsets offsets_;
  const ClassifyOptions options_;
  std::vector<Best> best_;     // of each token
  std::vector<float> scores_;  // of one token
};

}  // namespace

std::vector<LabelledSpan> JoinSpans(const std::vector<LabelScore>& tokens, const Offsets& offsets) {
  std::vector<LabelledSpan> spans;
  spans.reserve(tokens.size());
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

// While spans are joined, there is a label of each token too.
int64_t AnswerBytes(const ClassifyOptions& options, const ModelInfo& info, int64_t tokens) {
  const int64_t label = LabelBytes(info), span = sizeof(LabelledSpan) + label;
  const int64_t joining = options.all_tokens ? 0 : sizeof(LabelScore) + label;
  return sizeof(ClassifiedTokens) + 2 * kListBytes + tokens * (span + joining);
}

absl::StatusOr<std::shared_ptr<Job>> NewClassifyTokensJob(JobInput input, Offsets offsets,
                                                          const ClassifyOptions& options,
                                                          AnsweringJob<ClassifiedTokens>::Done done) {
  RETURN_IF_ERROR(Validate(input));
  RETURN_IF_ERROR(Validate(options));
  if (offsets.empty()) {
    for (int32_t i = 0; i < std::ssize(input.ids); ++i) offsets.emplace_back(i, i + 1);
  }
  return std::make_shared<ClassifyTokensJob>(input, std::move(offsets), options, std::move(done));
}

}  // namespace heed
