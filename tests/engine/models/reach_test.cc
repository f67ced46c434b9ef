// Windows and memories end where they say: what a token hears of is layers * (memory - 1) tokens back, and
// not one more.
#include <random>
#include <vector>

#include "engine/models/model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

constexpr int kLayers = 3;

std::vector<std::vector<float>> Rows(const Model& model, const std::vector<int32_t>& tokens) {
  std::vector<std::vector<float>> rows;
  std::unique_ptr<Sequence> sequence = model.Start();
  std::vector<Work> batch(1);
  batch[0].sequence = sequence.get();
  batch[0].tokens = tokens;
  for (int32_t i = 0; i < static_cast<int32_t>(tokens.size()); ++i) batch[0].wanted.push_back(i);
  batch[0].read = [&](int32_t, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); };
  Threads threads(1);
  std::unique_ptr<Pass> pass = model.Begin(&batch);
  while (pass->Advance(threads)) {
  }
  return rows;
}

// The farthest row, counted from `at`, that another token at `at` changes in any bit.
int64_t Reach(const Model& model, int64_t n, int64_t at) {
  std::mt19937 random(3);
  std::vector<int32_t> tokens(n);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 50);
  const auto before = Rows(model, tokens);
  tokens[at] = (tokens[at] + 25) % 50;
  const auto after = Rows(model, tokens);
  int64_t reach = -1;
  for (int64_t i = at; i < n; ++i) {
    if (before[i] != after[i]) reach = i - at;
  }
  return reach;
}

Json Config(const std::string& architecture, const Json& attention) {
  Json config = SmallConfig(architecture, architecture == "decoder" ? "lm" : "none", attention);
  while (config["layers"].size() < kLayers) config["layers"].push_back(config["layers"][0]);
  return config;
}

TEST(Reach, OfAMemoryIsLayersTimesOneLess) {
  for (int64_t memory : {1, 2, 9, 45}) {
    const Json window = {{"type", "sliding_window"}, {"window", memory}};
    const Json relative = {{"type", "relative_memory"}, {"memory", memory}};
    for (const Json& attention : {window, relative}) {
      const RandomModel model = MakeRandomModel(Config("decoder", attention), Precision::kF32);
      EXPECT_EQ(Reach(*model, 300, 100), kLayers * (memory - 1)) << attention;
    }
  }
}

TEST(Reach, OfADilatedWindowIsAsManyTimesFarther) {
  const Json attention = {{"type", "sliding_window"}, {"window", 8}, {"dilation", {1, 5, 2, 1}}};
  const RandomModel model = MakeRandomModel(Config("decoder", attention), Precision::kF32);
  EXPECT_EQ(Reach(*model, 300, 50), kLayers * 7 * 5);
}

TEST(Reach, OfAnEncodersWindowIsHalfOfIt) {
  const Json attention = {{"type", "sliding_window"}, {"window", 20}};
  const RandomModel model = MakeRandomModel(Config("encoder", attention), Precision::kF32);
  EXPECT_EQ(Reach(*model, 300, 100), kLayers * 10);
}

TEST(Reach, OfAGlobalTokenIsEverything) {
  const Json attention = {{"type", "sliding_window"}, {"window", 4}, {"global_tokens", {2}}};
  const RandomModel model = MakeRandomModel(Config("encoder", attention), Precision::kF32);
  EXPECT_EQ(Reach(*model, 300, 2), 297);
  EXPECT_EQ(Reach(*model, 300, 50), 249) << "by way of the global token";
}

}  // namespace
}  // namespace heed
