#include "server/jobs/answer_memory.h"

#include <chrono>

#include "server/error.h"

namespace heed {
namespace {

constexpr Duration kFull = std::chrono::milliseconds(500);  // until some answers have gone

}  // namespace

absl::Status ReservedAnswer::Add(int64_t bytes) {
  const int64_t most = memory_->of_a_request_;
  if (bytes > most - bytes_) {
    return Beyond(Error(ErrorReason::kAnswerTooLarge, "the request could be answered with ", bytes_ + bytes,
                        " bytes, at most ", most, " are possible"),
                  bytes_ + bytes, most);
  }
  if (const auto others = Refused(bytes)) {
    return RetryAfter(Error(ErrorReason::kAnswersFull, "the request's answers need ", bytes,
                            " more bytes, and those under way hold ", *others, " of ", memory_->of_all_),
                      kFull);
  }
  return absl::OkStatus();
}

absl::Status ReservedAnswer::AddImage(int64_t bytes) {
  const int64_t most = memory_->of_a_request_;
  if (bytes > most) {
    return Beyond(Error(ErrorReason::kAnswerTooLarge, "the image takes ", bytes,
                        " bytes once it is decoded, at most ", most, " are possible"),
                  bytes, most);
  }
  if (const auto others = Refused(bytes)) {
    return RetryAfter(Error(ErrorReason::kAnswersFull, "the image takes ", bytes,
                            " bytes once it is decoded, and images and answers under way hold ", *others,
                            " of ", memory_->of_all_),
                      kFull);
  }
  return absl::OkStatus();
}

std::optional<int64_t> ReservedAnswer::Refused(int64_t bytes) {
  const int64_t others = memory_->reserved_.fetch_add(bytes);
  if (bytes > memory_->of_all_ - others) {
    memory_->reserved_ -= bytes;
    return others;
  }
  bytes_ += bytes;
  return std::nullopt;
}

}  // namespace heed
