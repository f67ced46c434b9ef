#include "engine/generation/beam_golden.h"

#include "gtest/gtest.h"

namespace heed {
namespace {

TEST(BeamCases, AgreeOfEveryEncoderDecoder) {
  Threads threads(2);
  for (const char* name : {"seq2seq-pre-learned", "seq2seq-post-sinusoidal"}) {
    const auto results = CheckBeamCases(std::string(HEED_SOURCE_DIR "/tests/golden/native/") + name, threads);
    ASSERT_TRUE(results.ok()) << results.status();
    ASSERT_FALSE(results->empty());
    for (const GoldenResult& result : *results) EXPECT_EQ(result.problem, "") << name << " " << result.name;
  }
}

TEST(BeamCases, OtherModelsHaveNone) {
  Threads threads(1);
  const auto results =
      CheckBeamCases(HEED_SOURCE_DIR "/tests/golden/native/plain-decoder-pre-learned-gelu", threads);
  ASSERT_TRUE(results.ok());
  EXPECT_TRUE(results->empty());
}

}  // namespace
}  // namespace heed
