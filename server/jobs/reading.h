// Jobs that read one input from its first row to its last and then answer: encoders and encoder-decoders in
// one pass, decoders in chunks. A kind of such job says at which rows the model's output is wanted and what
// it makes of it.
#ifndef HEED_SERVER_JOBS_READING_H_
#define HEED_SERVER_JOBS_READING_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "server/job.h"
#include "server/jobs/input.h"

namespace heed {

std::vector<int32_t> LastRow(const JobInput& input);  // what a pooled head answers with
std::vector<int32_t> AllRows(const JobInput& input);

class ReadingJob : public Job {
 public:
  int64_t Rows() const override;
  void Next(int64_t rows, std::vector<Work>* batch) override;
  absl::StatusOr<bool> Take() override;
  void End(const absl::Status& status) override;

 protected:
  // The input is valid; `wanted` are rows of it, ascending.
  ReadingJob(const JobInput& input, std::vector<int32_t> wanted);

  // The output for wanted[i], on some engine thread, in ascending order; every number is finite. Must not
  // throw.
  virtual void Read(int64_t i, std::span<const float> output) = 0;
  // Once, last. OK: all was read.
  virtual void Answer(const absl::Status& status) = 0;

  const ModelInfo& info() const { return input_.model->info(); }
  const std::vector<int32_t>& ids() const { return input_.ids; }
  Usage Spent() const { return Job::Spent(input_.given(), 0); }

 private:
  void ReadNext(std::span<const float> output);

  const JobInput input_;
  const std::vector<int32_t> wanted_;
  std::unique_ptr<Sequence> sequence_;  // from the first pass to the end
  int64_t asked_ = 0;                   // rows that are or were in a pass
  int64_t outputs_ = 0;                 // that Read() has had
  bool finite_ = true;                  // all of them
};

}  // namespace heed

#endif  // HEED_SERVER_JOBS_READING_H_
