// The golden cases that travel with the source, in every precision, every way. `./dev golden DIR...` runs any
// others.

#include "engine/models/golden.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/base/status.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

constexpr float kOther = 2;

// "native/lsh-decoder", "hf/bert_mlm".
std::vector<std::string> Folders() {
  std::vector<std::string> folders;
  for (const std::string kind : {"hf", "native"}) {
    for (const auto& entry : std::filesystem::directory_iterator(HEED_SOURCE_DIR "/tests/golden/" + kind))
      folders.push_back(Cat(kind, "/", entry.path().filename().string()));
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

class GoldenCases : public testing::TestWithParam<std::string> {};

void Check(const std::string& name, Precision precision) {
  Threads threads(2);
  auto results = CheckModelCases(HEED_SOURCE_DIR "/tests/golden/" + name, precision, threads);
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

class GoldenBounds : public testing::Test {
 protected:
  std::vector<GoldenResult> Results(const std::string& folder, Precision precision) {
    auto results = CheckModelCases(folder, precision, threads_);
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? *std::move(results) : std::vector<GoldenResult>();
  }
  const std::string folder_ = HEED_SOURCE_DIR "/tests/golden/native/plain-decoder-pre-learned-gelu";
  Threads threads_{2};
};

TEST_F(GoldenBounds, AreWiderWhereARoundingIs) {
  const auto bf16 = Results(folder_, Precision::kBf16), int8 = Results(folder_, Precision::kInt8);
  ASSERT_FALSE(bf16.empty());
  ASSERT_EQ(bf16.size(), int8.size());
  EXPECT_GT(bf16[0].bound, 0);
  EXPECT_GT(int8[0].bound, 2 * bf16[0].bound);
}

// The last 64 numbers of the weights are others.
TEST_F(GoldenBounds, AreBeyondTheReachOfAnotherModel) {
  namespace fs = std::filesystem;
  const std::string other = Cat(testing::TempDir(), "heed-other-", getpid());
  fs::copy(folder_, other, fs::copy_options::recursive);
  const auto size = static_cast<int64_t>(fs::file_size(other + "/model.safetensors"));
  std::fstream file(other + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(size - 256);
  for (int i = 0; i < 64; ++i) file.write(reinterpret_cast<const char*>(&kOther), sizeof(kOther));
  file.close();
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    const auto results = Results(other, precision);
    ASSERT_FALSE(results.empty());
    EXPECT_NE(results[0].problem, "") << Name(precision);
  }
  fs::remove_all(other);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenCases, testing::ValuesIn(Folders()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '-' || c == '/' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace heed
