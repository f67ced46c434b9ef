#include "engine/text/golden.h"

#include <filesystem>

#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"

namespace heed {
namespace {

TEST(TokenizerCases, AgreeInEveryCase) {
  int tokenizers = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HEED_SOURCE_DIR "/tests/golden/tokenizers")) {
    auto results = CheckTokenizerCases(entry.path());
    ASSERT_TRUE(results.ok()) << entry.path() << results.status();
    EXPECT_GE(results->size(), 277u) << entry.path();
    for (const GoldenResult& result : *results) {
      EXPECT_EQ(result.problem, "") << entry.path() << " " << result.name;
      EXPECT_GE(result.ways, 2);
    }
    ++tokenizers;
  }
  EXPECT_GE(tokenizers, 15);
}

TEST(TokenizerCases, SaysWhatDisagrees) {
  TempFolder folder;
  folder.Write("tokenizer.json",
               R"({"model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 1}}})");
  folder.Write("cases.json", R"([{"text": "b", "ids": [1], "type_ids": [0], "offsets": [[0, 2]]},
                                 {"text": "b", "ids": [1], "type_ids": [0], "offsets": [[0, 1]], "more": 1}])");
  auto results = CheckTokenizerCases(folder.path());
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(results->at(0).problem, "offsets: [[0,1]] instead of [[0,2]]");
  EXPECT_EQ(results->at(1).problem, "cases.json: c1: unknown key \"more\"");
}

TEST(TokenizerCases, NeedsATokenizerAndCases) {
  TempFolder folder;
  EXPECT_EQ(CheckTokenizerCases(folder.path()).status().message(), "the folder has no tokenizer");
  folder.Write("config.json", R"({"tokenizer": "bytes"})");
  EXPECT_TRUE(absl::IsNotFound(CheckTokenizerCases(folder.path()).status()));
  folder.Write("cases.json", "[]");
  EXPECT_EQ(CheckTokenizerCases(folder.path()).status().message(), "cases.json: is not a list of cases");
}

}  // namespace
}  // namespace heed
