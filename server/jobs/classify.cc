#include "server/jobs/classify.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/status.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

// Makes labels of a row of scores, best first.
std::vector<LabelScore> LabelsOf(std::span<float> scores, const ClassifyOptions& options,
                                 const ModelInfo& info) {
  if (!options.raw_scores) ToProbabilities(info.multi_label, scores);
  const auto largest = Largest(scores, options.top);
  std::vector<LabelScore> labels;
  labels.reserve(largest.size());
  for (const auto& [index, score] : largest) {
    if (score < options.threshold && !options.raw_scores) break;
    labels.push_back({info.labels[index], index, score});
  }
  return labels;
}

class ClassifyJob : public AnsweringJob<Classified> {
 public:
  ClassifyJob(const JobInput& input, const ClassifyOptions& options, Done done)
      : AnsweringJob(input, TheAnswer(input), std::move(done)), options_(options) {}

  Classified Answer() override { return {.labels = LabelsOf(scores_, options_, info()), .usage = Spent()}; }

 private:
  void Read(int64_t, std::span<const float> output) override { scores_.assign(output.begin(), output.end()); }

  const ClassifyOptions options_;
  std::vector<float> scores_;
};

class ClassifyRowsJob : public AnsweringJob<ClassifiedRows> {
 public:
  ClassifyRowsJob(const JobInput& input, const ClassifyOptions& options, Done done)
      : AnsweringJob(input, AllRows(input), std::move(done)),
        options_(options),
        scores_(input.length() * info().output_width) {}

  ClassifiedRows Answer() override {
    ClassifiedRows classified{.usage = Spent()};
    const int64_t width = info().output_width, rows = std::ssize(scores_) / width;
    classified.rows.reserve(rows);
    for (int64_t r = 0; r < rows; ++r)
      classified.rows.push_back(LabelsOf(std::span(scores_).subspan(r * width, width), options_, info()));
    return classified;
  }

 private:
  void Read(int64_t i, std::span<const float> output) override {
    std::ranges::copy(output, scores_.begin() + i * info().output_width);
  }

  const ClassifyOptions options_;
  std::vector<float> scores_;  // [rows, labels]
};

}  // namespace

absl::Status Validate(const ClassifyOptions& options) {
  if (options.top < 0) return Invalid("top is ", options.top, ", at least 0 is possible");
  if (!(options.threshold >= 0 && options.threshold <= 1)) {
    return Invalid("threshold is ", options.threshold, ", possible are 0 to 1");
  }
  if (options.threshold > 0 && options.raw_scores) {
    return Invalid("threshold ", options.threshold, " is of probabilities, and raw_scores asks for none");
  }
  return absl::OkStatus();
}

void ToProbabilities(bool multi_label, std::span<float> logits) {
  const double sum = multi_label ? 0 : LogSumExp(logits.data(), std::ssize(logits));
  for (float& x : logits)
    x = static_cast<float>(multi_label ? 1 / (1 + std::exp(-double{x})) : std::exp(x - sum));
}

int64_t LabelBytes(const ModelInfo& info) {
  size_t longest = 0;
  for (const std::string& label : info.labels) longest = std::max(longest, label.size());
  return kListBytes + static_cast<int64_t>(longest);
}

int64_t AnswerBytes(const ClassifyOptions& options, const ModelInfo& info) {
  const int64_t all = std::ssize(info.labels),
                labels = options.top == 0 ? all : std::min<int64_t>(options.top, all);
  return sizeof(Classified) + kListBytes +
         labels * (static_cast<int64_t>(sizeof(LabelScore)) + LabelBytes(info));
}

int64_t AnswerBytesOfRows(const ClassifyOptions& options, const ModelInfo& info, int64_t rows) {
  const int64_t scores = info.output_width * static_cast<int64_t>(sizeof(float));
  return sizeof(ClassifiedRows) + 2 * kListBytes + rows * (scores + AnswerBytes(options, info));
}

absl::StatusOr<std::shared_ptr<Job>> NewClassifyJob(JobInput input, const ClassifyOptions& options,
                                                    AnsweringJob<Classified>::Done done) {
  RETURN_IF_ERROR(Validate(input));
  RETURN_IF_ERROR(Validate(options));
  return std::make_shared<ClassifyJob>(input, options, std::move(done));
}

absl::StatusOr<std::shared_ptr<Job>> NewClassifyRowsJob(JobInput input, const ClassifyOptions& options,
                                                        AnsweringJob<ClassifiedRows>::Done done) {
  RETURN_IF_ERROR(Validate(input));
  RETURN_IF_ERROR(Validate(options));
  return std::make_shared<ClassifyRowsJob>(input, options, std::move(done));
}

}  // namespace heed
