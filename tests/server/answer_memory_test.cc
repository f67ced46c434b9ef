// What requests reserve for their answers, and when they are refused.
#include "server/jobs/answer_memory.h"

#include <optional>

#include "gtest/gtest.h"
#include "server/error.h"

namespace heed {
namespace {

TEST(AnswerMemory, ARequestHasItsLimitWhateverIsLeft) {
  AnswerMemory memory(100, 1000);
  ReservedAnswer request(&memory);
  EXPECT_EQ(request.Add(60), absl::OkStatus());
  const absl::Status status = request.Add(41);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kAnswerTooLarge);
  EXPECT_EQ(status.message(), "the request could be answered with 101 bytes, at most 100 are possible");
  EXPECT_EQ(request.Add(40), absl::OkStatus());
  EXPECT_EQ(memory.reserved(), 100);
}

TEST(AnswerMemory, AllTogetherHaveTheirsAndARequestGivesItsPartBack) {
  AnswerMemory memory(100, 150);
  std::optional<ReservedAnswer> first(&memory);
  EXPECT_EQ(first->Add(100), absl::OkStatus());
  ReservedAnswer second(&memory);
  const absl::Status status = second.Add(51);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kAnswersFull);
  EXPECT_TRUE(RetryDelayOf(status).has_value());
  EXPECT_EQ(memory.reserved(), 100);
  first.reset();
  EXPECT_EQ(second.Add(51), absl::OkStatus());
  EXPECT_EQ(memory.reserved(), 51);
}

TEST(AnswerMemory, AnImageHasItsPartToo) {
  AnswerMemory memory(100, 150);
  std::optional<ReservedAnswer> image(&memory), large(&memory), other(&memory);
  EXPECT_EQ(image->AddImage(100), absl::OkStatus());
  const absl::Status status = large->AddImage(101), full = other->AddImage(51);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kAnswerTooLarge);
  EXPECT_EQ(status.message(), "the image takes 101 bytes once it is decoded, at most 100 are possible");
  EXPECT_EQ(ReasonOf(full), ErrorReason::kAnswersFull);
  EXPECT_TRUE(RetryDelayOf(full).has_value());
  image.reset();
  EXPECT_EQ(other->AddImage(51), absl::OkStatus());
  EXPECT_EQ(memory.reserved(), 51);
}

}  // namespace
}  // namespace heed
