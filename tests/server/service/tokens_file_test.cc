// The file of tokens, and what is said of its mistakes.
#include <string>

#include "engine/base/digest.h"
#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/config/tokens.h"
#include "tests/engine/base/temp_folder.h"

namespace heed {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Entry(const std::string& name, const std::string& token, const std::string& rest = "") {
  return Cat("token { name: '", name, "' sha256: '", Sha256(token).value(), "' ", rest, " }\n");
}

std::string Message(const std::string& text) {
  return std::string(ParseTokens(text, "tokens.textproto").status().message());
}

TEST(TokensFile, SaysWhatEachTokenIsGoodFor) {
  const auto tokens = ParseTokens(
      Entry("front-end", "one",
            "methods: 'heed.v1.Inference/*' methods: 'heed.v1.Models/ListModels' models: 'polarity'") +
          Entry("operator", "two",
                "methods: ['*', 'metrics', 'grpc.reflection.v1alpha.ServerReflection/*'] models: '*'"),
      "");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  ASSERT_NE(tokens->Find("one"), nullptr);
  EXPECT_EQ(tokens->Find("one")->name, "front-end");
  EXPECT_TRUE(CheckMethod(*tokens->Find("one"), "heed.v1.Inference/Generate").ok());
  EXPECT_FALSE(CheckMethod(*tokens->Find("one"), "heed.v1.Models/DescribeModel").ok());
  EXPECT_TRUE(CheckModel(tokens->Find("one").get(), "polarity").ok());
  EXPECT_TRUE(CheckModel(tokens->Find("two").get(), "anything").ok());
  EXPECT_EQ(tokens->Find("three"), nullptr);
}

TEST(TokensFile, SaysWhoMayReadMetrics) {
  const auto tokens = ParseTokens(Entry("prometheus", "one", "methods: 'metrics'") +
                                      Entry("client", "two", "methods: 'heed.v1.Inference/*' models: '*'"),
                                  "");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_TRUE(MayReadMetrics(*tokens, "prometheus", "one"));
  EXPECT_FALSE(MayReadMetrics(*tokens, "prometheus", "two"));
  EXPECT_FALSE(MayReadMetrics(*tokens, "client", "one"));
  EXPECT_FALSE(MayReadMetrics(*tokens, "client", "two"));
  EXPECT_FALSE(MayReadMetrics(*tokens, "", ""));
}

TEST(TokensFile, TakesHashesInCapitals) {
  std::string hash = Sha256("one").value();
  for (char& digit : hash) digit = static_cast<char>(std::toupper(digit));
  EXPECT_NE(ParseTokens(Cat("token { name: 'a' sha256: '", hash, "' }"), "")->Find("one"), nullptr);
}

TEST(TokensFile, NamesWhatIsWrong) {
  EXPECT_EQ(Message(""), "tokens.textproto: there is no token in it, and nobody could call");
  EXPECT_THAT(Message("token {\n nme: 'a'\n}"), HasSubstr("tokens.textproto:2:"));
  EXPECT_THAT(Message(Entry("a b", "one")), HasSubstr("token[0].name must be 1 to 64 of"));
  EXPECT_THAT(Message(Entry("a", "one") + Entry("a", "two")),
              HasSubstr("token[1].name is 'a', which another token has"));
  EXPECT_THAT(Message(Entry("a", "one") + Entry("b", "one")),
              HasSubstr("token[1].sha256 is that of another token"));
  EXPECT_THAT(Message(Entry("a", "one", "methods: 'heed.v1.Inferrence/*'")),
              HasSubstr("token[0].methods[0] is 'heed.v1.Inferrence/*', it must be *, SERVICE/*"));
  EXPECT_THAT(Message(Entry("a", "one", "models: 'm' models: '../m'")),
              HasSubstr("token[0].models[1] is '../m', it must be a model's name or *"));
}

TEST(TokensFile, MustBeAFileThatCanBeRead) {
  const TempFolder folder;
  EXPECT_EQ(ReadTokens(folder / "none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadTokens(folder.path()).status().message()), HasSubstr("is not a regular file"));
  const std::string path = folder.Write("tokens", Entry("a", "one"));
  EXPECT_NE(ReadTokens(path)->Find("one"), nullptr);
}

// Somebody may well have put the token itself where its hash belongs.
TEST(TokensFile, ShowsNothingThatMayBeAToken) {
  const std::string message = Message("token { name: 'a' sha256: 'open-sesame' }");
  EXPECT_THAT(message, HasSubstr("token[0].sha256 has 11 characters, it must be 64 hexadecimal digits"));
  EXPECT_THAT(message, Not(HasSubstr("sesame")));
  EXPECT_THAT(Message("token { name: 'open sesame' }"), Not(HasSubstr("sesame")));
}

}  // namespace
}  // namespace heed
