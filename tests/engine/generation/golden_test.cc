#include "engine/generation/golden.h"

#include "gtest/gtest.h"

namespace heed {
namespace {

TEST(SamplingCases, AgreeInEveryCase) {
  auto results = CheckSamplingCases(HEED_SOURCE_DIR "/tests/golden/sampling");
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(results->size(), 88u);
  for (const GoldenResult& result : *results) EXPECT_EQ(result.problem, "") << result.name;
}

TEST(SamplingCases, NeedAFolderOfCases) {
  EXPECT_TRUE(absl::IsNotFound(CheckSamplingCases(HEED_SOURCE_DIR "/tests/golden").status()));
}

}  // namespace
}  // namespace heed
