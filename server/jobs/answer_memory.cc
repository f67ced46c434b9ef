#include "server/jobs/answer_memory.h"

#include <chrono>

#include "server/error.h"

namespace heed {
namespace {

constexpr Duration kFull = std::chrono::milliseconds(500);  // until some answers have gone

}  // namespace

absl::Status ReservedAnswer::Add(int64_t bytes) {
  if (bytes > memory_->of_a_request_ - bytes_) {
    return Beyond(Error(ErrorReason::kAnswerTooLarge, "the request could be answered with ", bytes_ + bytes,
                        " bytes, at most ", memory_->of_a_request_, " are possible"),
                  bytes_ + bytes, memory_->of_a_request_);
  }
  if (const int64_t others = memory_->reserved_.fetch_add(bytes); bytes > memory_->of_all_ - others) {
    memory_->reserved_ -= bytes;
    return RetryAfter(Error(ErrorReason::kAnswersFull, "the request's answers need ", bytes,
                            " more bytes, and those under way hold ", others, " of ", memory_->of_all_),
                      kFull);
  }
  bytes_ += bytes;
  return absl::OkStatus();
}

}  // namespace heed
