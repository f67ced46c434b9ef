// `routing` against its definition where it is cut into tasks, in steps; its work, what it keeps, what it
// refuses.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/definitions.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

AttentionExample Routed(const std::string& options, Place place) { return {"routing", options, place}; }

TEST(Routing, IsTheDefinitionWithEveryOption) {
  for (const AttentionExample& example : ExamplesOf("routing")) {
    const Layer layer(example, Precision::kF32);
    for (int64_t n : {1, 15, 40, 41, 65, 97, 150, 300, 600}) ExpectDefinition(Whole(layer, n), AllRows(n));
  }
}

TEST(Routing, AStepKnowsTheTokensSoFar) {
  for (const AttentionExample& example : DecodersOf("routing")) {
    const Layer layer(example, Precision::kF32);
    for (int64_t prompt : {1, 30, 65, 150, 170}) {
      Passage steps(layer, 250);
      const auto run = layer.attention().Start();
      steps.Extend(*run, 0, prompt);
      steps.ExtendBy(*run, prompt, 250, 1);
      std::vector<int64_t> rows = AllRows(250);
      rows.erase(rows.begin(), rows.begin() + prompt);
      ExpectDefinition(steps, rows, {.by_steps = true});
    }
  }
}

// A head so wide that a cluster is several tasks, as are the rows of a page where each reads its keys alone.
TEST(Routing, CutInTasksItIsTheDefinition) {
  for (const char* options : {R"({"clusters": 3, "window": 200})", R"({"clusters": 3, "window": 400})",
                              R"({"clusters": 45, "window": 200, "strict_causal": true})"}) {
    const Layer layer({"routing", options, Place::kDecoder, 512, 1}, Precision::kF32);
    const auto run = layer.attention().Start();
    const Passage passage(layer, 390);
    int64_t tasks = 0;
    for (const AttentionStage& stage : passage.Plan(*run)) tasks += stage.tasks;
    EXPECT_GT(tasks, 6) << options;
    ExpectDefinition(Whole(layer, 390), AllRows(390));
  }
}

// Whole pieces and panels: nothing is computed that nobody sees.
TEST(Routing, ComputesTheScoresWithCentroidsAndThePairsInClusters) {
  for (const auto& [clusters, window] : {std::pair{64, 64}, std::pair{64, 128}, std::pair{128, 64}}) {
    const Layer layer({"routing", Cat(R"({"clusters": )", clusters, R"(, "window": )", window, "}"),
                       Place::kEncoder, 64, 2},
                      Precision::kF32);
    for (int64_t n : {64, 1024, 4096}) {
      const int64_t before = MicroKernel::MultiplyAdds();
      Whole(layer, n);
      const auto counted = static_cast<double>(MicroKernel::MultiplyAdds() - before);
      EXPECT_LE(counted, layer.attention().Cost(n, n)) << n << ": " << clusters << " of " << window;
      const double pairs = n <= window ? static_cast<double>(n * n) : clusters * window * window;
      EXPECT_EQ(layer.attention().Cost(n, n), 2 * 32 * (static_cast<double>(n * clusters) + 2 * pairs));
    }
  }
}

// A step chooses, and attends where it is a member: not to all tokens, however many.
TEST(Routing, AStepReadsNoMoreThanItsClusters) {
  const Layer layer(Routed(R"({"clusters": 5, "window": 32})", Place::kDecoder), Precision::kF32);
  const auto run = layer.attention().Start();
  Passage passage(layer, 3000);
  passage.Extend(*run, 0, 2900);
  const int64_t before = MicroKernel::MultiplyAdds();
  passage.ExtendBy(*run, 2900, 3000, 1);
  const int64_t a_step = 4 * (8 * 64 + 5 * 64 * (8 + 16));  // of panels and pieces
  EXPECT_LE(MicroKernel::MultiplyAdds() - before, 100 * a_step);
}

TEST(Routing, WhatClustersHandOnIsLetGoOfAfterAPrompt) {
  const Layer layer(Routed(R"({"clusters": 5, "window": 32})", Place::kDecoder), Precision::kF32);
  const auto prompted = layer.attention().Start(), stepped = layer.attention().Start();
  Passage passage(layer, 1280);
  passage.Extend(*prompted, 0, 1280);
  passage.ExtendBy(*stepped, 0, 1280, 1);
  EXPECT_EQ(Measured(*prompted), Measured(*stepped));
}

// Its value would be multiplied by a weight of 0; as a key it would be a member of every cluster if no number
// were more than any.
TEST(Routing, ATokenThatIsNoNumberDoesNotReachThoseBeforeIt) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (bool strict : {false, true}) {
    for (int64_t n : {8, 150}) {
      const Layer layer(
          Routed(Cat(R"({"clusters": 5, "window": 20, "strict_causal": )", strict ? "true}" : "false}"),
                 Place::kDecoder),
          Precision::kF32);
      const Passage whole = Whole(layer, n);
      for (int64_t t : {1, 5, 100, 149}) {
        if (t >= n) continue;
        Passage other(layer, n);
        for (int64_t c = 0; c < 32; ++c) other.product(1).Set(t, c, nan);
        if (strict) other.product(0).Set(t, 3, nan);  // a later token's choice is another's
        other.Extend(*layer.attention().Start(), 0, n);
        const int64_t first = FirstDifference(whole.out(), other.out());
        if (n <= 20) {  // all are members
          EXPECT_EQ(first, t) << n << " rows";
        } else {
          EXPECT_TRUE(first == -1 || first >= t) << first << " before " << t << " of " << n;
        }
      }
    }
  }
}

TEST(Routing, SaysWhetherItsStepsAreItsWhole) {
  const auto decode = [](const std::string& options, Place place) {
    return Layer(Routed(options, place), Precision::kF32).attention().decode();
  };
  const std::string plain = R"({"clusters": 5, "window": 32})",
                    strict = R"({"clusters": 5, "window": 32, "strict_causal": true})";
  EXPECT_EQ(decode(plain, Place::kDecoder), DecodeClass::kApproximate);
  EXPECT_EQ(decode(strict, Place::kDecoder), DecodeClass::kExact);
  EXPECT_EQ(decode(plain, Place::kEncoder), DecodeClass::kNone);
}

TEST(Routing, RefusesWhatCannotBe) {
  const std::vector<Refusal> refusals = {
      {Place::kDecoder, R"({"window": 8})", {"layers[0].attention", "clusters"}},
      {Place::kDecoder, R"({"clusters": 5})", {"window"}},
      {Place::kDecoder, R"({"clusters": 0, "window": 8})", {"clusters", "0", "1"}},
      {Place::kDecoder, R"({"clusters": 5000, "window": 8})", {"clusters", "5000", "4096"}},
      {Place::kDecoder, R"({"clusters": 5, "window": 65537})", {"window", "65537", "65536"}},
      {Place::kDecoder, R"({"clusters": 5, "window": 8, "scale": 0})", {"scale", "0"}},
      {Place::kDecoder, R"({"clusters": 5, "window": 8, "local_heads": 4})", {"local_heads", "4", "3"}},
      {Place::kDecoder, R"({"clusters": 5, "window": 8, "local_heads": 2})", {"local_window"}},
      {Place::kDecoder,
       R"({"clusters": 5, "window": 8, "local_heads": 2, "local_window": 0})",
       {"local_window", "0", "1"}},
      {Place::kEncoder,
       R"({"clusters": 5, "window": 8, "strict_causal": true})",
       {"strict_causal", "not causal"}},
      {Place::kCross, R"({"clusters": 5, "window": 8})", {"cross-attention"}},
      {Place::kDecoder, R"({"clusters": 6, "window": 8})", {"centroids", "6", "5"}},
      {Place::kDecoder, R"({"clusters": 5, "window": 8, "shared_qk": false})", {"k.weight"}},
  };
  const Layer layer(Routed(R"({"clusters": 5, "window": 8})", Place::kDecoder), Precision::kF32);
  ExpectRefused(layer, layer.scope(), refusals);
}

}  // namespace
}  // namespace heed
