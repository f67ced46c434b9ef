#include "server/jobs/reading.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/ops/rows.h"
#include "server/error.h"

namespace heed {

std::vector<int32_t> TheAnswer(const JobInput& input) {
  const bool tokens = input.model->info().input.kind == InputRow::Kind::kToken;
  return {tokens ? static_cast<int32_t>(input.length() - 1) : 0};
}

std::vector<int32_t> AllRows(const JobInput& input) {
  std::vector<int32_t> rows(input.length());
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

ReadingJob::ReadingJob(const JobInput& input, std::vector<int32_t> wanted)
    : Job(TermsOf(input, input.length())), input_(input), wanted_(std::move(wanted)) {}

int64_t ReadingJob::Rows() const { return input_.rows() - asked_; }

void ReadingJob::Next(int64_t rows, std::vector<Work>* batch) {
  if (!sequence_) sequence_ = input_.model->Start();
  Work work = NextRows(sequence_.get(), input_, asked_, rows);
  const InputRow& row_of_input = input_.model->info().input;
  const int64_t end = asked_ + work.InputRows(row_of_input);
  for (auto row = std::ranges::lower_bound(wanted_, asked_); row != wanted_.end() && *row < end; ++row) {
    work.wanted.push_back(static_cast<int32_t>(*row - asked_));
  }
  work.read = [this](int32_t, std::span<const float> output) { ReadNext(output); };
  if (input_.weights) {
    work.weights = &weights_;
    work.choice = &*input_.weights;
  }
  asked_ += work.rows(row_of_input);
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
