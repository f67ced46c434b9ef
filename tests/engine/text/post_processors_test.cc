#include "engine/text/post_processors.h"

#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

// "<s>" 0, "</s>" 1, "a" 2, and tokens with spaces.
void Fill(Vocabulary& vocabulary) {
  int id = 0;
  for (const char* token : {"<s>", "</s>", "a", "\u0120a", "\u0120\u0120", "a\u0120"})
    vocabulary.Add(token, id++);
}

std::string Shown(const Encoding& encoding) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    shown.push_back(Cat(encoding.ids[i], "/", encoding.type_ids[i], ":", encoding.offsets[i].first, "-",
                        encoding.offsets[i].second));
  }
  return absl::StrJoin(shown, " ");
}

// "id/type:begin-end", of one text or two.
std::string Joined(std::string_view json, const Tokens& first, std::optional<Tokens> second = std::nullopt,
                   bool add_special_tokens = true) {
  Vocabulary vocabulary;
  Fill(vocabulary);
  auto processor = NewPostProcessor(ParseJson(json, "t").value(), "t", vocabulary);
  if (!processor.ok()) return std::string(processor.status().message());
  return Shown((*processor)->Join(first, second ? &*second : nullptr, add_special_tokens));
}

constexpr char kBert[] = R"({"type": "BertProcessing", "cls": ["<s>", 0], "sep": ["</s>", 1]})";
constexpr char kRoberta[] = R"({"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 1]})";

TEST(PostProcessors, BertPutsTokensAroundTexts) {
  EXPECT_EQ(Joined(kBert, {{2, 0, 1}}), "0/0:0-0 2/0:0-1 1/0:0-0");
  EXPECT_EQ(Joined(kBert, {{2, 0, 1}}, Tokens{{2, 0, 1}}), "0/0:0-0 2/0:0-1 1/0:0-0 2/1:0-1 1/1:0-0");
  EXPECT_EQ(Joined(kBert, {{2, 0, 1}}, Tokens{{2, 0, 1}}, false), "2/0:0-1 2/1:0-1");
}

TEST(PostProcessors, RobertaHasOneTypeAndTrims) {
  EXPECT_EQ(Joined(kRoberta, {{2, 0, 1}, {3, 1, 3}}, Tokens{{3, 0, 2}}),
            "0/0:0-0 2/0:0-1 3/0:2-3 1/0:0-0 1/0:0-0 3/0:0-2 1/0:0-0");
  EXPECT_EQ(Joined(kRoberta, {{2, 0, 1}}, Tokens{{2, 0, 1}}, false), "2/0:0-1 2/0:0-1");
}

TEST(PostProcessors, TrimmedOffsetsLoseTheSpacesAtTheirEnds) {
  const char trim[] = R"({"type": "ByteLevel", "add_prefix_space": false})";
  EXPECT_EQ(Joined(trim, {{3, 0, 2}, {4, 2, 4}, {5, 4, 6}}), "3/0:1-2 4/0:4-4 5/0:4-5");
  EXPECT_EQ(Joined(R"({"type": "ByteLevel", "trim_offsets": false})", {{3, 1, 3}}), "3/0:1-3");
}

TEST(PostProcessors, APrefixSpaceIsNotTrimmedFromTheFirstToken) {
  const char trim[] = R"({"type": "ByteLevel"})";
  EXPECT_EQ(Joined(trim, {{3, 0, 1}, {3, 1, 3}}), "3/0:0-1 3/0:2-3");
  EXPECT_EQ(Joined(trim, {{4, 0, 2}}), "4/0:2-2") << "two are not added";
}

TEST(PostProcessors, SpacesThatAnAddedTokenTookAreTrimmed) {
  EXPECT_EQ(Joined(R"({"type": "ByteLevel"})", {{2, 0, 1}, {1, 1, 8, 2, 1}}), "2/0:0-1 1/0:3-7");
}

TEST(PostProcessors, SequenceTrimsAndJoins) {
  const std::string both =
      Cat(R"({"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": false}, )", kBert,
          "]}");
  EXPECT_EQ(Joined(both, {{3, 0, 2}}), "0/0:0-0 3/0:1-2 1/0:0-0");
  EXPECT_EQ(Joined(R"({"type": "Sequence", "processors": []})", {{3, 0, 2}}, Tokens{{2, 0, 1}}),
            "3/0:0-2 2/1:0-1");
}

TEST(PostProcessors, RefuseWhatTheyCannotJoin) {
  EXPECT_EQ(Joined(R"({"type": "BertProcessing", "cls": ["<s>", 9], "sep": ["</s>", 1]})", {}),
            "t: cls: 9 is not an id below 6");
  EXPECT_EQ(Joined(R"({"type": "BertProcessing", "cls": "<s>"})", {}), "t: cls is not a token and its id");
  EXPECT_EQ(Joined(Cat(R"({"type": "Sequence", "processors": [)", kBert, ",", kRoberta, "]}"), {}),
            "t.processors[1]: one before it already adds special tokens");
  EXPECT_EQ(Joined(R"({"type": "Sequence"})", {}), "t: processors is not a list");
}

}  // namespace
}  // namespace heed
