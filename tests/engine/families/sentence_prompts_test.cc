#include "engine/families/sentence_prompts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"

namespace heed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr char kFile[] = "config_sentence_transformers.json";

TEST(SentencePrompts, AreReadByNameWithTheDefaultOne) {
  TempFolder folder;
  EXPECT_TRUE(ReadSentencePrompts(folder.path())->by_name.empty()) << "a folder without the file has none";
  folder.Write(kFile, R"({"__version__": {}, "prompts": {"query": "query: ", "document": ""},
                          "default_prompt_name": "query", "similarity_fn_name": "cosine"})");
  const auto prompts = ReadSentencePrompts(folder.path());
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  EXPECT_THAT(prompts->by_name, ElementsAre(Pair("document", ""), Pair("query", "query: ")));
  EXPECT_EQ(prompts->default_name, "query");
}

TEST(SentencePrompts, MayBeNull) {
  TempFolder folder;
  folder.Write(kFile, R"({"prompts": null, "default_prompt_name": null})");
  const auto prompts = ReadSentencePrompts(folder.path());
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  EXPECT_TRUE(prompts->by_name.empty() && prompts->default_name.empty());
}

TEST(SentencePrompts, AreRefusedByNameWhereTheyAreWrong) {
  TempFolder folder;
  const auto refusal = [&](const std::string& text) {
    folder.Write(kFile, text);
    return std::string(ReadSentencePrompts(folder.path()).status().message());
  };
  EXPECT_THAT(refusal("{"), HasSubstr(kFile));
  EXPECT_THAT(refusal(R"({"prompts": ["query: "]})"), HasSubstr("prompts: is not an object"));
  EXPECT_THAT(refusal(R"({"prompts": {"query": 7}})"), HasSubstr(R"(prompts["query"]: is no text)"));
  EXPECT_THAT(refusal(R"({"prompts": {}, "default_prompt_name": "query"})"),
              HasSubstr(R"(default_prompt_name: "query" is none of prompts)"));
  EXPECT_THAT(refusal(R"({"prompts": {"q": ")" + std::string(16385, 'x') + "\"}}"),
              HasSubstr(R"(prompts["q"]: has 16385 bytes, at most 16384 are possible)"));
}

}  // namespace
}  // namespace heed
