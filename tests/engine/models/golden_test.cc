// The golden cases that travel with the source, in every precision, every way. `./dev golden DIR...` runs any
// others.

#include "engine/models/golden.h"

#include <filesystem>

#include "gtest/gtest.h"

namespace heed {
namespace {

std::vector<std::string> Folders() {
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(HEED_SOURCE_DIR "/tests/golden/native")) {
    folders.push_back(entry.path().filename());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

class GoldenCases : public testing::TestWithParam<std::string> {};

void Check(const std::string& name, Precision precision) {
  Threads threads(2);
  auto results = CheckModelCases(HEED_SOURCE_DIR "/tests/golden/native/" + name, precision, threads);
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_FALSE(results->empty());
  int ways = 0;  // a case of greedy tokens alone is tried in f32 only
  for (const GoldenResult& result : *results) {
    EXPECT_EQ(result.problem, "") << result.name;
    if (precision == Precision::kF32) {
      EXPECT_GT(result.ways, 0) << result.name;
    }
    ways += result.ways;
  }
  EXPECT_GT(ways, 0);
}

TEST_P(GoldenCases, AgreeInF32) { Check(GetParam(), Precision::kF32); }
TEST_P(GoldenCases, AgreeInBf16) { Check(GetParam(), Precision::kBf16); }
TEST_P(GoldenCases, AgreeInInt8) { Check(GetParam(), Precision::kInt8); }

// So int8 taken for bf16, or any error as large, is found.
TEST(GoldenBounds, OfOnePrecisionAreTooNarrowForACoarserOne) {
  Threads threads(2);
  const std::string folder = HEED_SOURCE_DIR "/tests/golden/native/plain-decoder-pre-learned-gelu";
  const auto bf16 = CheckModelCases(folder, Precision::kBf16, threads);
  const auto int8 = CheckModelCases(folder, Precision::kInt8, threads);
  ASSERT_TRUE(bf16.ok() && int8.ok());
  ASSERT_FALSE(bf16->empty());
  ASSERT_EQ(bf16->size(), int8->size());
  for (size_t i = 0; i < bf16->size(); ++i) {
    if ((*bf16)[i].ways == 0) continue;
    EXPECT_GT((*bf16)[i].bound, 0);
    EXPECT_GT((*int8)[i].rms, (*bf16)[i].bound);
  }
}

INSTANTIATE_TEST_SUITE_P(Native, GoldenCases, testing::ValuesIn(Folders()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace heed
