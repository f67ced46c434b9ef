// What every feed-forward keeps of its contract, whatever it computes.
#include <algorithm>
#include <limits>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/blocks/layer.h"

namespace heed {
namespace {

using testing::HasSubstr;

struct Setting {
  FeedForwardExample example;
  Precision precision;
};

std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  for (const FeedForwardExample& example : FeedForwardExamples()) {
    for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8})
      settings.push_back({example, precision});
  }
  return settings;
}

class FeedForwardContract : public testing::TestWithParam<Setting> {
 protected:
  const FeedForwardLayer layer_{GetParam().example, GetParam().precision};
};

TEST_P(FeedForwardContract, AnyTeamGivesTheSameBits) {
  for (int64_t rows : {1, 3, 37}) {
    const Numbers x = RandomInput(layer_, rows), alone = Pass(layer_, x).out;
    for (int team : {2, 16}) EXPECT_EQ(Pass(layer_, x, team).out, alone) << rows << " rows, " << team;
  }
}

TEST_P(FeedForwardContract, ARowIsTheSameBitsInAnyCompany) {
  const int64_t width = layer_.width();
  const int64_t rows = layer_->block_rows();
  const Numbers x = RandomInput(layer_, rows), all = Pass(layer_, x).out;
  for (int64_t r : {int64_t{0}, int64_t{1}, int64_t{77}, rows - 1})
    EXPECT_EQ(Pass(layer_, RowOf(x, r, width)).out, RowOf(all, r, width)) << "row " << r;
  const Numbers some(x.begin() + 70 * width, x.begin() + 90 * width);
  const Numbers expected(all.begin() + 70 * width, all.begin() + 90 * width);
  EXPECT_EQ(Pass(layer_, some, 2).out, expected);
}

TEST_P(FeedForwardContract, ARowOfNanReachesNoOther) {
  const int64_t width = layer_.width();
  Numbers x = RandomInput(layer_, 20);
  const Numbers clean = Pass(layer_, x).out;
  std::fill_n(x.begin() + 7 * width, width, std::numeric_limits<float>::quiet_NaN());
  x[13 * width] = std::numeric_limits<float>::infinity();
  const Numbers out = Pass(layer_, x).out;
  for (int64_t r = 0; r < 20; ++r) {
    if (r == 7) {
      EXPECT_TRUE(std::isnan(out[r * width]));
    } else if (r != 13) {
      EXPECT_EQ(RowOf(out, r, width), RowOf(clean, r, width)) << "row " << r;
    }
  }
}

TEST_P(FeedForwardContract, TheMemoryThatItDeclaresIsEnough) {
  for (int64_t rows : {int64_t{1}, layer_->block_rows()}) {
    for (int team : {1, 3}) {
      const Passage passage = Pass(layer_, RandomInput(layer_, rows), team);
      EXPECT_FALSE(passage.scratch_grew) << rows << " rows";
      EXPECT_FALSE(passage.shared_overflows) << rows << " rows";
    }
  }
}

TEST_P(FeedForwardContract, AddsToTheResidualStreamWhatItWouldWrite) {
  const Numbers x = RandomInput(layer_, 9), written = Pass(layer_, x).out;
  const Numbers start = RandomInput(layer_, 9, 5), added = Pass(layer_, x, 1, &start).out;
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(added[i], start[i] + written[i], 1e-5 * (1 + std::abs(start[i]) + std::abs(written[i])));
}

TEST_P(FeedForwardContract, CountsItsWeightsAsTheyLieInMemory) {
  const int64_t before = LastingMemory::Bytes();
  const auto another = layer_.New(layer_.options());
  ASSERT_TRUE(another.ok());
  const int64_t held = LastingMemory::Bytes() - before;
  EXPECT_GE((*another)->weight_bytes(), held);
  EXPECT_LE((*another)->weight_bytes(), 2 * held) << "beside them biases and scales alone";
  EXPECT_GT((*another)->multiply_adds(), layer_.width());
}

TEST_P(FeedForwardContract, AnUnknownOptionIsRefused) {
  Json options = layer_.options();
  options["optoin"] = 1;
  const auto refused = layer_.New(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("config.json: layers[0].ffn"));
  EXPECT_THAT(refused.status().message(), HasSubstr("optoin"));
}

INSTANTIATE_TEST_SUITE_P(Every, FeedForwardContract, testing::ValuesIn(Settings()), [](const auto& info) {
  return info.param.example.type + "_" + std::string(Name(info.param.precision)) + "_" +
         std::to_string(info.index / 3);
});

TEST(FeedForwardTable, HasAnExampleOfEveryType) {
  std::set<std::string> tried = {"none"};
  for (const FeedForwardExample& example : FeedForwardExamples()) tried.insert(example.type);
  for (std::string_view type : FeedForwardTypes()) EXPECT_TRUE(tried.contains(std::string(type))) << type;
}

TEST(FeedForwardTable, AnUnknownTypeIsRefusedWithThoseThereAre) {
  const FeedForwardLayer layer(DenseExample(), Precision::kF32);
  const auto refused = layer.New({{"type", "sparse"}});
  ASSERT_FALSE(refused.ok());
  for (const char* part : {"config.json: layers[0].ffn.type", "sparse", "dense", "moe", "pkm", "none"})
    EXPECT_THAT(refused.status().message(), HasSubstr(part));
}

TEST(FeedForwardTable, NoneIsNothing) {
  const FeedForwardLayer layer(DenseExample(), Precision::kF32);
  const auto none = layer.New({{"type", "none"}});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, nullptr);
  EXPECT_FALSE(layer.New({{"type", "none"}, {"top_k", 1}}).ok());
}

}  // namespace
}  // namespace heed
