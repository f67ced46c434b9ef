#include "server/jobs/fill.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/ops/rows.h"
#include "server/jobs/reading.h"

namespace heed {
namespace {

class FillJob : public ReadingJob {
 public:
  FillJob(const JobInput& input, const FillOptions& options, std::function<void(absl::StatusOr<Filled>)> done)
      : ReadingJob(input, options.positions), options_(options), done_(std::move(done)) {}

 private:
  void Read(int64_t i, std::span<const float> logits) override {
    Filled::Position& filled = positions_.emplace_back();
    filled.position = options_.positions[i];
    filled.tokens = Largest(logits, options_.top);
    const double sum = LogSumExp(logits.data(), std::ssize(logits));
    for (auto& [id, score] : filled.tokens) score = static_cast<float>(score - sum);
  }

  void Answer(const absl::Status& status) override {
    if (!status.ok()) return done_(status);
    done_(Filled{.positions = std::move(positions_), .usage = Spent()});
  }

  const FillOptions options_;
  const std::function<void(absl::StatusOr<Filled>)> done_;
  std::vector<Filled::Position> positions_;
};

absl::Status Validate(const FillOptions& options, int64_t rows) {
  if (options.top < 1 || options.top > 100) return Invalid("top is ", options.top, ", possible are 1 to 100");
  int32_t previous = -1;
  for (int32_t position : options.positions) {
    if (position <= previous) return Invalid("positions are not ascending: ", position, " after ", previous);
    if (position >= rows) return Invalid("position ", position, " is beyond the input's ", rows, " tokens");
    previous = position;
  }
  return absl::OkStatus();
}

std::vector<int32_t> MaskedPositions(const JobInput& input) {
  std::vector<int32_t> positions;
  for (int32_t i = 0; i < std::ssize(input.ids); ++i) {
    if (input.ids[i] == input.model->info().mask_token_id) positions.push_back(i);
  }
  return positions;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Job>> NewFillJob(JobInput input, const FillOptions& options,
                                                std::function<void(absl::StatusOr<Filled>)> done) {
  RETURN_IF_ERROR(Validate(input));
  RETURN_IF_ERROR(Validate(options, std::ssize(input.ids)));
  FillOptions chosen = options;
  if (chosen.positions.empty()) chosen.positions = MaskedPositions(input);
  if (chosen.positions.empty()) return Invalid("the input has no mask token, and no positions are given");
  return std::make_shared<FillJob>(input, chosen, std::move(done));
}

}  // namespace heed
