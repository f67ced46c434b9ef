// One answer for a whole input: how its rows become one, in whole models.
#include <cmath>

#include "engine/attention/attention.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/models/naive_rows.h"
#include "tests/engine/models/state.h"

namespace heed {
namespace {

using testing::HasSubstr;

constexpr int32_t kPad = 7;

Json Config(const std::string& pooling, const std::string& architecture = "decoder") {
  Json config = SmallConfig(architecture, "none");
  config["pooling"] = pooling;
  if (pooling.starts_with("last_token")) config["pooling_token"] = kPad;
  return config;
}

const std::vector<std::string> kPoolings = {"first",         "mean",          "last",           "max",
                                            "mean_sqrt_len", "weighted_mean", "last_token_not", "last_token"};

// The definition.
Row Pooled(const std::string& pooling, const std::vector<Row>& rows, const std::vector<int32_t>& ids) {
  const size_t n = rows.size();
  if (pooling == "first") return rows.front();
  if (pooling == "last") return rows.back();
  if (pooling.starts_with("last_token")) {
    for (size_t r = n; r > 0; --r)
      if ((ids[r - 1] == kPad) == (pooling == "last_token")) return rows[r - 1];
    return rows.back();
  }
  Row sum(rows[0].size()), weighted = sum, most = rows[0];
  for (size_t r = 0; r < n; ++r) {
    sum = Sum(sum, rows[r]);
    weighted = Sum(weighted, Times(rows[r], static_cast<double>(r + 1)));
    for (size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], rows[r][i]);
  }
  const auto count = static_cast<double>(n);
  if (pooling == "max") return most;
  if (pooling == "mean") return Times(sum, 1 / count);
  if (pooling == "mean_sqrt_len") return Times(sum, 1 / std::sqrt(count));
  return Times(weighted, 2 / (count * (count + 1)));
}

const std::vector<std::vector<int32_t>> kInputs = {
    {3}, {kPad}, {3, 1, 4, 1, 5}, {9, kPad, 2, 6, kPad, kPad}, {kPad, kPad, kPad}, {kPad, kPad, 4, kPad}};

TEST(Pooling, IsItsDefinition) {
  for (const std::string& pooling : kPoolings) {
    for (const char* architecture : {"encoder", "decoder"}) {
      const Json config = Config(pooling, architecture);
      const Tensors tensors = RandomTensorsOf(config);
      const auto pooled = ModelOf(config, tensors),
                 rows = ModelOf(Without(Without(config, "pooling"), "pooling_token"), tensors);
      for (const std::vector<int32_t>& ids : kInputs) {
        ExpectNear(Answers(*pooled, {.ids = ids}), {Pooled(pooling, Answers(*rows, {.ids = ids}), ids)}, 1e-5,
                   pooling);
      }
    }
  }
}

TEST(Pooling, IsOfWhatTheHeadsLayersGiveWhereItIsLate) {
  for (const char* norm : {"pre", "post"}) {
    Json config = Config("mean", "encoder");
    config["norm"] = norm;
    const Json first = {{"hidden_act", "gelu"}}, second = {{"hidden_act", "tanh"}, {"norm", true}};
    config["head_layers"] = Json::array({first, second});
    const Tensors tensors = RandomTensorsOf(config);
    const auto rows = ModelOf(Without(config, "pooling"), tensors);
    config["late_pooling"] = true;
    const auto late = ModelOf(config, tensors);
    for (const std::vector<int32_t>& ids : kInputs) {
      ExpectNear(Answers(*late, {.ids = ids}), {Pooled("mean", Answers(*rows, {.ids = ids}), ids)}, 1e-5,
                 norm);
    }
  }
  Json config = Config("mean", "encoder");
  config["late_pooling"] = true;
  const Json narrow = {{"width", 20}};
  config["head_layers"] = Json::array({narrow});
  EXPECT_THAT(std::string(TryRandomModel(config).status().message()),
              HasSubstr("late_pooling: true, of head_layers as wide as the rows, 32; one has 20"));
  config.erase("pooling");
  EXPECT_THAT(std::string(TryRandomModel(config).status().message()),
              HasSubstr("late_pooling: true, of a head that does not pool"));
}

TEST(Pooling, CountsTokensBehindTheModelsOwnRows) {
  Json config = Config("last_token_not", "encoder");
  config["extra_global_tokens"] = 3;
  const Tensors tensors = RandomTensorsOf(config);
  const auto pooled = ModelOf(config, tensors),
             rows = ModelOf(Without(Without(config, "pooling"), "pooling_token"), tensors);
  for (const std::vector<int32_t>& ids : kInputs) {
    ExpectNear(Answers(*pooled, {.ids = ids}), {Pooled("last_token_not", Answers(*rows, {.ids = ids}), ids)},
               1e-5, "front");
  }
}

TEST(Pooling, HasTheSameBitsInAnyCompany) {
  for (const std::string& pooling : kPoolings) {
    for (Precision precision : {Precision::kF32, Precision::kBf16})
      ExpectSameBitsInAnyCompany(*MakeRandomModel(Config(pooling, "encoder"), precision), 300);
  }
}

// The next rows of a sequence, and what the head answers, if it is the end.
Output Next(const Model& model, Sequence& sequence, const std::vector<int32_t>& ids, bool more) {
  Threads threads(2);
  Output out;
  std::vector<Work> batch = {AskingAll(model, {.ids = ids}, &sequence, &out)};
  batch[0].more = more;
  const auto pass = model.Begin(&batch);
  while (pass->Advance(threads)) {
  }
  return out;
}

// In chunks, saved and restored between them, and forked.
TEST(Pooling, GoesOnWithTheSameBitsFromASavedState) {
  std::vector<int32_t> ids(2 * kGrid + 5);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * i % 9 == 0 ? kPad : i % 50);
  ids.back() = kPad;
  for (const std::string& pooling : kPoolings) {
    const RandomModel model = MakeRandomModel(Config(pooling));
    const auto whole = model->Start();
    const Output expected = Next(*model, *whole, ids, false);
    auto sequence = model->Start();
    for (int64_t at = 0; at < std::ssize(ids); at += kGrid) {
      const int64_t end = std::min<int64_t>(at + kGrid, std::ssize(ids));
      const bool more = end < std::ssize(ids);
      const Output out = Next(*model, *sequence, {ids.begin() + at, ids.begin() + end}, more);
      EXPECT_EQ(out, more ? Output() : expected) << pooling;
      EXPECT_LE(MeasuredBytes(*sequence), model->StateBytes(sequence->tokens())) << pooling;
      sequence = at == 0 ? RestoredSequence(*model, StateOf(*sequence)) : sequence->Clone();
    }
  }
}

TEST(Pooling, BytesThatAreNoStateAreAnErrorNotACrash) {
  const RandomModel model = MakeRandomModel(Config("last_token_not"));
  const auto sequence = model->Start();
  Next(*model, *sequence, {1, 2, kPad}, false);
  ExpectDamageIsNoCrash(*model, StateOf(*sequence));
}

TEST(Pooling, RefusalsNameTheFieldTheValueAndTheLimit) {
  const Json config = Config("last_token_not");
  EXPECT_THAT(RefusalOf(Config("median")), HasSubstr("config.json: pooling: \"median\" is none of"));
  EXPECT_THAT(RefusalOf(Without(config, "pooling_token")), HasSubstr("pooling_token is missing"));
  EXPECT_THAT(RefusalOf(With(config, "/pooling_token", 50)),
              HasSubstr("config.json: pooling_token: 50 is above 49"));
  EXPECT_THAT(RefusalOf(With(Config("mean"), "/pooling_token", 1)),
              HasSubstr("unknown key \"pooling_token\""));
  Json funnel = With(config, "/architecture", "funnel-encoder");
  const Json block = {{"layers", funnel["layers"]}};
  funnel.erase("layers");
  funnel["blocks"] = Json::array({block, block});
  EXPECT_THAT(RefusalOf(funnel), HasSubstr("config.json: pooling: \"last_token_not\" is of rows"));
}

}  // namespace
}  // namespace heed
