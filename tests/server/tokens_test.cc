#include "server/tokens.h"

#include <memory>
#include <string>

#include "engine/base/digest.h"
#include "gtest/gtest.h"
#include "server/error.h"

namespace heed {
namespace {

std::shared_ptr<const Rights> NewRights(const Rights& rights) {
  return std::make_shared<const Rights>(rights);
}

TEST(Tokens, AreFoundByTheirHash) {
  const auto first = NewRights({.name = "first"}), second = NewRights({.name = "second"});
  const KnownTokens tokens({{.sha256 = Sha256("one").value(), .rights = first},
                            {.sha256 = Sha256("two").value(), .rights = second}});
  EXPECT_EQ(tokens.Find("one"), first);
  EXPECT_EQ(tokens.Find("two"), second);
  for (const char* none : {"", "On", "onee", "ONE"}) EXPECT_EQ(tokens.Find(none), nullptr);
  EXPECT_EQ(tokens.Find(Sha256("one").value()), nullptr);
}

TEST(Rights, AreForMethodsServicesOrAll) {
  const auto may = [](const std::string& pattern, const std::string& method) {
    const absl::Status status = CheckMethod({.name = "t", .methods = {pattern}}, method);
    EXPECT_TRUE(status.ok() || ReasonOf(status) == ErrorReason::kMethodForbidden);
    return status.ok();
  };
  EXPECT_TRUE(may("a.B/C", "a.B/C"));
  EXPECT_FALSE(may("a.B/C", "a.B/CD"));
  EXPECT_FALSE(may("a.B/CD", "a.B/C"));
  EXPECT_TRUE(may("a.B/*", "a.B/C"));
  EXPECT_FALSE(may("a.B/*", "a.BC/D"));
  EXPECT_FALSE(may("a.B/*", "metrics"));
  EXPECT_TRUE(may("*", "a.B/C"));
}

TEST(Rights, AreForNothingThatIsNotNamed) {
  EXPECT_EQ(CheckMethod({.name = "t"}, "a.B/C").message(), "the token 't' is not good for this method");
  const Rights none{.name = "t"}, some{.models = {"m", "n"}}, all{.models = {"*"}};
  EXPECT_EQ(CheckModel(&none, "m").message(), "the token 't' is not good for this model");
  EXPECT_TRUE(CheckModel(&some, "n").ok());
  EXPECT_EQ(ReasonOf(CheckModel(&some, "o")), ErrorReason::kModelForbidden);
  EXPECT_TRUE(CheckModel(&all, "o").ok());
  EXPECT_TRUE(CheckModel(nullptr, "o").ok());
}

}  // namespace
}  // namespace heed
