#include "server/jobs/fill.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

class FillJob : public AnsweringJob<Filled> {
 public:
  FillJob(const JobInput& input, const FillOptions& options, Done done)
      : AnsweringJob(input, options.positions, std::move(done)), options_(options) {
    positions_.reserve(options_.positions.size());
  }

  Filled Answer() override { return {.positions = std::move(positions_), .usage = Spent()}; }

 private:
  void Read(int64_t i, std::span<const float> logits) override {
    Filled::Position& filled = positions_.emplace_back();
    filled.position = options_.positions[i];
    filled.tokens = Largest(logits, options_.top);
    const double sum = LogSumExp(logits.data(), std::ssize(logits));
    for (auto& [id, score] : filled.tokens) score = static_cast<float>(score - sum);
  }

  const FillOptions options_;
  std::vector<Filled::Position> positions_;
};

absl::Status Validate(const FillOptions& options, int64_t rows) {
  if (options.top < 1 || options.top > kMaxFillTop)
    return Invalid("top is ", options.top, ", possible are 1 to ", kMaxFillTop);
  int32_t previous = -1;
  for (int32_t position : options.positions) {
    if (position <= previous) return Invalid("positions are not ascending: ", position, " after ", previous);
    if (position >= rows) return Invalid("position ", position, " is beyond the input's ", rows, " tokens");
    previous = position;
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<int32_t> PositionsToFill(const FillOptions& options, const ModelInfo& info,
                                     std::span<const int32_t> ids) {
  std::vector<int32_t> positions = options.positions;
  if (!positions.empty()) return positions;
  for (int32_t i = 0; i < std::ssize(ids); ++i) {
    if (ids[i] == info.mask_token_id) positions.push_back(i);
  }
  return positions;
}

int64_t AnswerBytes(const FillOptions& options, int64_t positions) {
  const int64_t tokens = kListBytes + options.top * static_cast<int64_t>(sizeof(std::pair<int32_t, float>));
  return sizeof(Filled) + kListBytes + positions * (static_cast<int64_t>(sizeof(Filled::Position)) + tokens);
}

absl::StatusOr<std::shared_ptr<Job>> NewFillJob(JobInput input, const FillOptions& options,
                                                AnsweringJob<Filled>::Done done) {
  RETURN_IF_ERROR(Validate(input));
  RETURN_IF_ERROR(Validate(options, std::ssize(input.ids)));
  FillOptions chosen = options;
  chosen.positions = PositionsToFill(options, input.model->info(), input.ids);
  if (chosen.positions.empty()) return Invalid("the input has no mask token, and no positions are given");
  return std::make_shared<FillJob>(input, chosen, std::move(done));
}

}  // namespace heed
