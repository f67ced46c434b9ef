#include "server/jobs/classify.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/status.h"
#include "engine/ops/rows.h"
#include "server/jobs/reading.h"

namespace heed {
namespace {

class ClassifyJob : public ReadingJob {
 public:
  ClassifyJob(const JobInput& input, const ClassifyOptions& options,
              std::function<void(absl::StatusOr<Classified>)> done)
      : ReadingJob(input, LastRow(input)), options_(options), done_(std::move(done)) {}

 private:
  void Read(int64_t, std::span<const float> output) override { scores_.assign(output.begin(), output.end()); }

  void Answer(const absl::Status& status) override {
    if (!status.ok()) return done_(status);
    if (!options_.raw_scores) ToProbabilities(info().multi_label, scores_);
    Classified classified{.usage = Spent()};
    for (const auto& [index, score] : Largest(scores_, options_.top)) {
      if (score < options_.threshold && !options_.raw_scores) break;
      classified.labels.push_back({info().labels[index], index, score});
    }
    done_(std::move(classified));
  }

  const ClassifyOptions options_;
  const std::function<void(absl::StatusOr<Classified>)> done_;
  std::vector<float> scores_;
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

absl::StatusOr<std::shared_ptr<Job>> NewClassifyJob(JobInput input, const ClassifyOptions& options,
                                                    std::function<void(absl::StatusOr<Classified>)> done) {
  RETURN_IF_ERROR(Validate(input));
  RETURN_IF_ERROR(Validate(options));
  return std::make_shared<ClassifyJob>(input, options, std::move(done));
}

}  // namespace heed
