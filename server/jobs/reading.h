// Jobs that read one input from its first row to its last: encoders and encoder-decoders in one pass,
// decoders in chunks. A kind of such job says at which rows the model's output is wanted and what it keeps of
// it; the answer is made of that later, by whoever wants it.
#ifndef HEED_SERVER_JOBS_READING_H_
#define HEED_SERVER_JOBS_READING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/job.h"
#include "server/jobs/input.h"

namespace heed {

std::vector<int32_t> TheAnswer(const JobInput& input);  // of one that is of all rows together
std::vector<int32_t> AllRows(const JobInput& input);

class ReadingJob : public Job {
 public:
  int64_t Rows() const override;
  void Next(int64_t rows, std::vector<Work>* batch) override;
  absl::StatusOr<bool> Take() override;
  void End(const absl::Status& status) override;

  // Once all was read: the weights that JobInput::weights asks for, an entry for each attention chosen.
  const std::optional<WeightsChoice>& choice() const { return input_.weights; }
  const std::vector<LayerWeights>& weights() const { return weights_; }

 protected:
  // The input is valid; `wanted` are rows of it, ascending.
  ReadingJob(const JobInput& input, std::vector<int32_t> wanted);

  // The output for wanted[i], on some engine thread, in ascending order; every number is finite. Must not
  // throw.
  virtual void Read(int64_t i, std::span<const float> output) = 0;
  // Once, last. OK: all was read. Quick: it is the scheduler's thread.
  virtual void Tell(const absl::Status& status) = 0;

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
  std::vector<LayerWeights> weights_;   // written by the pass
};

// A reading job with a Result to be had of it.
template <typename Result>
class AnsweringJob : public ReadingJob, public std::enable_shared_from_this<AnsweringJob<Result>> {
 public:
  // Told once, last, on the scheduler's thread: the job itself when all was read, or why it ended early.
  // Quick.
  using Done = std::function<void(absl::StatusOr<std::shared_ptr<AnsweringJob>>)>;

  // Makes the answer of what was read. Once, after Done had the job, on any thread: this is what takes time.
  virtual Result Answer() = 0;

 protected:
  AnsweringJob(const JobInput& input, std::vector<int32_t> wanted, Done done)
      : ReadingJob(input, std::move(wanted)), done_(std::move(done)) {}

 private:
  void Tell(const absl::Status& status) final {
    const Done done = std::move(done_);  // what it holds may hold this job
    if (status.ok()) {
      done(this->shared_from_this());
    } else {
      done(status);
    }
  }

  Done done_;
};

// What a list in memory of its own takes beside its contents, at most: in the closed forms of answers.
inline constexpr int64_t kListBytes = 32;

}  // namespace heed

#endif  // HEED_SERVER_JOBS_READING_H_
