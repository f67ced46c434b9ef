// The memory that answers take, and images that files become, known before it is used: what an input may be
// answered with at the most is reserved when its tokens are known, and given back when its call has ended;
// that of an image when its size is known, and given back when its job has gone.
#ifndef HEED_SERVER_JOBS_ANSWER_MEMORY_H_
#define HEED_SERVER_JOBS_ANSWER_MEMORY_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace heed {

// Of all requests at a time. Thread-safe.
class AnswerMemory {
 public:
  AnswerMemory(int64_t of_a_request, int64_t of_all)
      : of_a_request_(std::min(of_a_request, of_all)), of_all_(of_all) {}

  int64_t reserved() const { return reserved_; }
  int64_t limit() const { return of_all_; }

 private:
  friend class ReservedAnswer;
  const int64_t of_a_request_, of_all_;
  std::atomic<int64_t> reserved_{0};
};

// One request's part of it, or one image's, for as long as this lives. One thread at a time; the memory
// outlives it.
class ReservedAnswer {
 public:
  explicit ReservedAnswer(AnswerMemory* memory) : memory_(memory) {}
  ~ReservedAnswer() { memory_->reserved_ -= bytes_; }
  ReservedAnswer(const ReservedAnswer&) = delete;
  ReservedAnswer& operator=(const ReservedAnswer&) = delete;

  // So much more. ANSWER_TOO_LARGE if that is beyond what a request may have; ANSWERS_FULL, with when to try
  // again, if others have the rest. Then nothing more is reserved.
  absl::Status Add(int64_t bytes);
  // The same, once, of an image.
  absl::Status AddImage(int64_t bytes);

 private:
  // Gives what the others hold, if they leave too little.
  std::optional<int64_t> Refused(int64_t bytes);

  AnswerMemory* const memory_;
  int64_t bytes_ = 0;
};

}  // namespace heed

#endif  // HEED_SERVER_JOBS_ANSWER_MEMORY_H_
