// The token that a client shows, out of a file.
#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands.h"
#include "tests/engine/base/temp_folder.h"

namespace heed::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A server that remembers what it was shown.
class Token : public testing::Test {
 protected:
  Token() {
    server_.classify = [this](grpc::ServerContext& context, const v1::ClassifyRequest& request,
                              v1::ClassifyResponse& response) {
      const auto [begin, end] = context.client_metadata().equal_range("authorization");
      for (auto each = begin; each != end; ++each)
        shown_.emplace_back(each->second.data(), each->second.size());
      return CallGood(context, request, response);
    };
  }
  Outcome Classify(const std::vector<std::string>& flags) const {
    std::vector<std::string> words = {"classify"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.push_back("text");
    return RunAt(server_, words);
  }

  const TempFolder folder_;
  FakeServer server_;
  std::vector<std::string> shown_;
};

TEST_F(Token, GoesWithEachCallWithoutItsLineEnd) {
  const std::string file = folder_.Write("token", "abc.DEF-123_~+/=\n");
  EXPECT_EQ(Classify({"--token-file=" + file}).exit, kDone);
  EXPECT_THAT(shown_, ElementsAre("Bearer abc.DEF-123_~+/="));
  EXPECT_EQ(Classify({}).exit, kDone);
  EXPECT_EQ(shown_.size(), 1u);
}

TEST_F(Token, MayBeNamedInTheEnvironment) {
  setenv("HEED_TOKEN_FILE", folder_.Write("token", "abc").c_str(), 1);
  EXPECT_EQ(Classify({}).exit, kDone);
  unsetenv("HEED_TOKEN_FILE");
  EXPECT_THAT(shown_, ElementsAre("Bearer abc"));
}

TEST_F(Token, ThatIsNoneIsRefusedAndNotShown) {
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("two words"), std::string("sesame\n123"),
        std::string("sesame\xff"), std::string(4097, 'x')}) {
    const Outcome run = Classify({"--token-file=" + folder_.Write("token", text)});
    EXPECT_EQ(run.exit, kFailed);
    EXPECT_THAT(run.err, HasSubstr("it must be one token, 1 to 4096 of [A-Za-z0-9._~+/=-]"));
    EXPECT_THAT(run.err, Not(HasSubstr("sesame")));
  }
  EXPECT_THAT(Classify({"--token-file=/nowhere"}).err, HasSubstr("token_file is '/nowhere': "));
  EXPECT_THAT(shown_, ElementsAre());
}

TEST_F(Token, ThatIsMissingIsAdvised) {
  server_.classify = [](auto&, auto&, auto&) {
    return Refusal(grpc::UNAUTHENTICATED, "a token is needed here", {.reason = "TOKEN_REQUIRED"});
  };
  EXPECT_EQ(Classify({}).err,
            "heed: TOKEN_REQUIRED: a token is needed here\n"
            "--token_file=FILE with your token, which you have from who runs the server\n");
}

}  // namespace
}  // namespace heed::cli
