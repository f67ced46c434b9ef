#include "server/jobs/reading.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/ops/rows.h"
#include "server/error.h"

namespace heed {

std::vector<int32_t> LastRow(const JobInput& input) {
  return {static_cast<int32_t>(std::ssize(input.ids) - 1)};
}

std::vector<int32_t> AllRows(const JobInput& input) {
  std::vector<int32_t> rows(input.ids.size());
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

ReadingJob::ReadingJob(const JobInput& input, std::vector<int32_t> wanted)
    : Job(TermsOf(input, std::ssize(input.ids))), input_(input), wanted_(std::move(wanted)) {}

int64_t ReadingJob::Rows() const { return input_.rows() - asked_; }

void ReadingJob::Next(int64_t rows, std::vector<Work>* batch) {
  if (!sequence_) sequence_ = input_.model->Start();
  Work work = NextRows(sequence_.get(), input_, asked_, rows);
  const int64_t end = asked_ + std::ssize(work.tokens);
  for (auto row = std::ranges::lower_bound(wanted_, asked_); row != wanted_.end() && *row < end; ++row) {
    work.wanted.push_back(static_cast<int32_t>(*row - asked_));
  }
  work.read = [this](int32_t, std::span<const float> output) { ReadNext(output); };
  if (input_.weights) {
    work.weights = &weights_;
    work.choice = &*input_.weights;
  }
  asked_ += work.rows();
  batch->push_back(std::move(work));
}

void ReadingJob::ReadNext(std::span<const float> output) {
  finite_ = finite_ && AllFinite(output.data(), std::ssize(output));
  if (finite_) Read(outputs_++, output);
}

absl::StatusOr<bool> ReadingJob::Take() {
  if (!finite_) return Error(ErrorReason::kOutputNotFinite, "the model's output is not finite");
  return Rows() == 0;
}

void ReadingJob::End(const absl::Status& status) {
  sequence_.reset();
  Tell(status);
}

}  // namespace heed
