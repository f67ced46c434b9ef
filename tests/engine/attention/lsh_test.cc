// `lsh` against its definition where it is cut into tasks, in steps; what it keeps, what it refuses.
#include <algorithm>
#include <limits>
#include <vector>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/definitions.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

AttentionExample Hashed(const std::string& options, Place place) { return {"lsh", options, place}; }

TEST(Lsh, IsTheDefinitionWithEveryOption) {
  for (const AttentionExample& example : ExamplesOf("lsh")) {
    const Layer layer(example, Precision::kF32);
    for (int64_t n : {1, 15, 21, 150, 151, 300}) {
      ExpectDefinition(Whole(layer, n), AllRows(n));
    }
  }
}

TEST(Lsh, AStepReadsWhatHasArrived) {
  for (const AttentionExample& example : DecodersOf("lsh")) {
    const Layer layer(example, Precision::kF32);
    Passage steps(layer, 200);
    steps.ExtendBy(*layer.attention().Start(), 0, 200, 1);
    ExpectDefinition(steps, AllRows(200), {.by_steps = true});
  }
}

// A head so wide that a round is several tasks: some chunks each, or a part of one.
TEST(Lsh, RoundsCutInTasksAreTheDefinition) {
  for (const char* options :
       {R"({"chunk_length": 64, "num_hashes": 2, "num_buckets": 8})",
        R"({"chunk_length": 200, "num_hashes": 2, "num_buckets": 8})",
        R"({"chunk_length": 64, "num_hashes": 2, "num_buckets": 8, "strict_causal": true})"}) {
    const Layer layer({"lsh", options, Place::kDecoder, 512, 1}, Precision::kF32);
    const auto run = layer.attention().Start();
    int64_t most = 0;
    for (const AttentionStage& stage : Passage(layer, 450).Plan(*run)) most = std::max(most, stage.tasks);
    EXPECT_GT(most, 3) << options;
    ExpectDefinition(Whole(layer, 450), AllRows(450));
  }
}

TEST(Lsh, WhatARoundHandsOnIsLetGoOfAfterAPrompt) {
  const Layer layer(Hashed(R"({"chunk_length": 8, "num_hashes": 2, "num_buckets": 8})", Place::kDecoder),
                    Precision::kF32);
  const auto prompted = layer.attention().Start(), stepped = layer.attention().Start();
  Passage passage(layer, 1280);
  passage.Extend(*prompted, 0, 1280);
  passage.ExtendBy(*stepped, 0, 1280, 1);
  EXPECT_LE(Measured(*prompted), Measured(*stepped));
}

// Its value would be multiplied by a weight of 0, and its key be masked by adding to a score that is none.
TEST(Lsh, ATokenThatIsNoNumberDoesNotReachThoseBeforeIt) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (bool strict : {false, true}) {
    for (int64_t n : {8, 150}) {
      const Layer layer(
          Hashed(Cat(R"({"chunk_length": 8, "num_hashes": 2, "num_buckets": 8, "strict_causal": )",
                     strict ? "true}" : "false}"),
                 Place::kDecoder),
          Precision::kF32);
      const Passage whole = Whole(layer, n);
      for (int64_t t : {1, 5, 100, 149}) {
        if (t >= n) continue;
        Passage other(layer, n);
        other.product(1).Set(t, 3, nan);
        if (strict) other.product(0).Set(t, 3, nan);  // sorting asks it with whom others meet
        other.Extend(*layer.attention().Start(), 0, n);
        EXPECT_EQ(FirstDifference(whole.out(), other.out()), t) << n << " rows";
      }
    }
  }
}

TEST(Lsh, SaysWhetherItsStepsAreItsWhole) {
  const auto decode = [](const std::string& options, Place place) {
    return Layer(Hashed(options, place), Precision::kF32).attention().decode();
  };
  const std::string plain = R"({"chunk_length": 8, "num_hashes": 2, "num_buckets": 8})",
                    strict =
                        R"({"chunk_length": 8, "num_hashes": 2, "num_buckets": 8, "strict_causal": true})";
  EXPECT_EQ(decode(plain, Place::kDecoder), DecodeClass::kApproximate);
  EXPECT_EQ(decode(strict, Place::kDecoder), DecodeClass::kExact);
  EXPECT_EQ(decode(plain, Place::kEncoder), DecodeClass::kNone);
}

TEST(Lsh, RefusesWhatCannotBe) {
  const std::vector<Refusal> refusals = {
      {Place::kDecoder, R"({"num_hashes": 2, "num_buckets": 8})", {"layers[0].attention", "chunk_length"}},
      {Place::kDecoder, R"({"chunk_length": 8, "num_buckets": 8})", {"num_hashes"}},
      {Place::kDecoder, R"({"chunk_length": 8, "num_hashes": 2})", {"num_buckets", "null"}},
      {Place::kDecoder,
       R"({"chunk_length": 8, "num_hashes": 2, "num_buckets": 7})",
       {"num_buckets", "7", "even"}},
      {Place::kDecoder, R"({"chunk_length": 8, "num_hashes": 2, "num_buckets": []})", {"num_buckets", "[]"}},
      {Place::kDecoder,
       R"({"chunk_length": 8, "num_hashes": 2, "num_buckets": [1024, 1024, 2]})",
       {"num_buckets", "1048576"}},
      {Place::kDecoder,
       R"({"chunk_length": 8, "num_hashes": 2, "num_buckets": 8, "chunks_after": 1})",
       {"chunks_after", "decoder"}},
      {Place::kEncoder,
       R"({"chunk_length": 8, "num_hashes": 2, "num_buckets": 8, "strict_causal": true})",
       {"strict_causal", "not causal"}},
      {Place::kCross, R"({"chunk_length": 8, "num_hashes": 2, "num_buckets": 8})", {"cross-attention"}},
      {Place::kDecoder, R"({"chunk_length": 8, "num_hashes": 3, "num_buckets": 8})", {"rotations", "3", "2"}},
  };
  const Layer layer(Hashed(R"({"chunk_length": 8, "num_hashes": 2, "num_buckets": 8})", Place::kDecoder),
                    Precision::kF32);
  ExpectRefused(layer, layer.scope(), refusals);
}

}  // namespace
}  // namespace heed
