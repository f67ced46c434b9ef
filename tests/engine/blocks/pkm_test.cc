// The product-key memory beside its definition, which scores every value.
#include <algorithm>

#include "engine/ops/microkernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/blocks/definitions.h"

namespace heed {
namespace {

using testing::HasSubstr;

constexpr Precision kPrecisions[] = {Precision::kF32, Precision::kBf16, Precision::kInt8};

// The scores of a head's n_keys^2 values.
Bounded Scores(const FeedForwardLayer& layer, const PkmSizes& o, const Bounded& query, int64_t head) {
  const int64_t half = o.query / 2;
  std::vector<double> score[2], error[2];
  for (int s = 0; s < 2; ++s) {
    for (int64_t key = 0; key < o.keys; ++key) {
      double sum = 0, magnitude = 0, off = 0;
      for (int64_t i = 0; i < half; ++i) {
        const double c = layer.tensor("sub_keys")[((head * 2 + s) * o.keys + key) * half + i];
        const int64_t at = head * o.query + s * half + i;
        sum += c * query.value[at];
        magnitude += std::abs(c * query.value[at]);
        off += std::abs(c) * query.error[at];
      }
      score[s].push_back(sum);
      error[s].push_back(off + static_cast<double>(half + 2) * kFloat * magnitude);
    }
  }
  Bounded scores;
  for (int64_t i = 0; i < o.keys; ++i) {
    for (int64_t j = 0; j < o.keys; ++j) {
      scores.value.push_back(score[0][i] + score[1][j]);
      scores.error.push_back(error[0][i] + error[1][j] + kFloat * std::abs(scores.value.back()));
    }
  }
  return scores;
}

// A score's error changes a share by no more than twice as much of it.
Bounded Pkm(const FeedForwardLayer& layer, const PkmSizes& o, const Numbers& row, bool* certain) {
  const int64_t width = layer.width();
  const bool bf16 = ActivationType(layer.precision()) == DType::kBf16;
  const Bounded query = Linear(layer, "query", Exactly(row), layer.precision());
  Bounded y{std::vector<double>(width), std::vector<double>(width)};
  *certain = true;
  for (int64_t head = 0; head < o.heads; ++head) {
    const Bounded scores = Scores(layer, o, query, head);
    const std::vector<int64_t> order = Ranking(scores.value);
    *certain = *certain && IsCertain(scores, order, o.top_k);
    const double error = *std::max_element(scores.error.begin(), scores.error.end());
    double sum = 0;
    for (int64_t i = 0; i < o.top_k; ++i) sum += std::exp(scores.value[order[i]]);
    for (int64_t i = 0; i < o.top_k; ++i) {
      const double weight = std::exp(scores.value[order[i]]) / sum;
      const double weight_error = weight * (std::expm1(2 * error) + 40 * kFloat);
      const std::vector<double> value =
          Held(&layer.tensor("values")[order[i] * width], width, bf16 ? Precision::kBf16 : Precision::kF32);
      for (int64_t c = 0; c < width; ++c) {
        y.value[c] += weight * value[c];
        y.error[c] +=
            (weight_error + static_cast<double>(o.heads * o.top_k) * kFloat * weight) * std::abs(value[c]);
      }
    }
  }
  return y;
}

// In int8 the query's own rounding makes most choices uncertain by its worst bound; a memory of one value a
// head has none to make.
void ExpectItsDefinition(const PkmSizes& sizes, Precision precision, int64_t rows, int64_t most_uncertain) {
  const FeedForwardLayer layer(PkmExample(sizes), precision);
  const Numbers x = RandomInput(layer, rows), out = Pass(layer, x).out;
  int64_t uncertain = 0;
  for (int64_t r = 0; r < rows; ++r) {
    bool certain = false;
    const Bounded expected = Pkm(layer, sizes, RowOf(x, r, layer.width()), &certain);
    uncertain += !certain;
    if (certain) ExpectWithin(expected, RowOf(out, r, layer.width()), std::string(Name(precision)));
  }
  EXPECT_LE(uncertain, most_uncertain) << Name(precision);
}

TEST(PkmFeedForward, IsTheBestOfAllValues) {
  for (Precision precision : {Precision::kF32, Precision::kBf16}) {
    for (int64_t rows : {1, 40}) {
      ExpectItsDefinition({2, 12, 10, 3}, precision, rows, rows / 20);
      ExpectItsDefinition({3, 30, 8, 11}, precision, rows, rows / 20);
      ExpectItsDefinition({1, 6, 2, 6}, precision, rows, rows / 20);
      ExpectItsDefinition({5, 420, 6, 4}, precision, (rows + 19) / 20, 0);  // four heads at a time
    }
  }
}

TEST(PkmFeedForward, IsTheBestOfAllValuesInInt8) {
  ExpectItsDefinition({2, 2, 10, 1}, Precision::kInt8, 60, 40);
  ExpectItsDefinition({4, 1, 12, 1}, Precision::kInt8, 60, 0);
}

// All scores are equal: the first sub-keys of both halves, the first half's better ones first.
TEST(PkmFeedForward, OfEqualSumsTheBetterFirstHalfComesFirst) {
  const PkmSizes sizes{1, 4, 2, 3};
  const FeedForwardExample example = PkmExample(sizes);
  auto tensors = RandomTensors(example);
  std::fill(tensors["query.weight"].begin(), tensors["query.weight"].end(), 0.0f);
  tensors["query.bias"] = {1, 1};
  const auto out = [&](const Numbers& first, const Numbers& second) {
    tensors["sub_keys"] = first;
    tensors["sub_keys"].insert(tensors["sub_keys"].end(), second.begin(), second.end());
    const FeedForwardLayer layer(example, Precision::kF32, tensors);
    return Pass(layer, RandomInput(layer, 1)).out;
  };
  const auto mean = [&](std::vector<int64_t> values, size_t c) {
    double sum = 0;
    for (int64_t value : values) sum += tensors["values"][value * 40 + c];
    return sum / static_cast<double>(values.size());
  };
  const Numbers equal = out({1, 1, 1, 1}, {1, 1, 1, 1}), crossed = out({5, 4, 3, 2}, {2, 3, 4, 5});
  const float far = -30;  // 5 + 5 stands alone; then 5 + 4 and 4 + 5 are equal
  const Numbers two = out({far, 5, 4, far}, {4, far, 5, far});
  for (size_t c = 0; c < 40; ++c) {
    EXPECT_NEAR(equal[c], mean({0, 1, 2}, c), 1e-6);
    const double e = std::exp(-1.0);
    const auto weighed = [&](int64_t a, int64_t b, int64_t d) {
      const auto value = [&](int64_t v) { return double{tensors["values"][v * 40 + c]}; };
      return (value(a) + e * (value(b) + value(d))) / (1 + 2 * e);
    };
    EXPECT_NEAR(crossed[c], weighed(3, 2, 7), 1e-6);
    EXPECT_NEAR(two[c], weighed(1 * 4 + 2, 1 * 4 + 0, 2 * 4 + 2), 1e-6);
  }
}

TEST(PkmFeedForward, WorkFollowsTheKeysNotTheValues) {
  const auto calls = [](int64_t keys) {
    const FeedForwardLayer layer(PkmExample({2, keys, 10, 3}), Precision::kF32);
    const int64_t before = MicroKernel::Calls();
    Pass(layer, RandomInput(layer, 100));
    return MicroKernel::Calls() - before;
  };
  EXPECT_EQ(calls(64), 1 + 4 * 1);  // the query, and each half of each head
  EXPECT_EQ(calls(256), 1 + 4 * 4);
  const auto cost = [](int64_t keys) {
    return FeedForwardLayer(PkmExample({2, keys, 10, 3}), Precision::kF32)->multiply_adds();
  };
  EXPECT_EQ(cost(256) - cost(64), 2 * 10 * (256 - 64));
}

TEST(PkmFeedForward, ValuesAreKeptInTheActivationTypeAndCounted) {
  const PkmSizes sizes{2, 100, 10, 3};
  const int64_t line = 64, values = 100 * 100;
  for (Precision precision : kPrecisions) {
    const FeedForwardLayer layer(PkmExample(sizes), precision);
    const int64_t row = (40 * SizeOf(ActivationType(layer.precision())) + line - 1) / line * line;
    EXPECT_GE(layer->weight_bytes(), values * row) << Name(precision);
    EXPECT_LE(layer->weight_bytes(), values * row * 1.1) << Name(precision);
    EXPECT_TRUE(layer->data_dependent());
  }
}

TEST(PkmFeedForward, AFilesBf16ValuesStayAsTheyAreInF32) {
  const FeedForwardLayer floats(PkmExample({2, 100, 10, 3}), Precision::kF32);
  std::vector<Bf16> halves;
  for (float number : floats.tensor("values")) halves.push_back(ToBf16(number));
  std::map<std::string, Tensor> views;
  for (const auto& [name, shape] : floats.example().shapes)
    views[name] = {DType::kF32, shape, floats.tensor(name).data()};
  views["values"] = {DType::kBf16, {100 * 100, 40}, halves.data()};
  const auto weights = Weights::Of(views);
  const auto kept = floats.New(floats.options(), WeightScope(*weights));
  ASSERT_TRUE(kept.ok());
  EXPECT_LE((*kept)->weight_bytes(), floats->weight_bytes() - 100 * 100 * 64) << "a cache line a value less";
}

TEST(PkmFeedForward, RefusesWithTheFieldTheValueAndTheLimit) {
  const FeedForwardLayer layer(PkmExample(), Precision::kF32);
  const auto with = [&](const char* key, Json value) {
    Json options = layer.options();
    options[key] = std::move(value);
    return options;
  };
  const struct {
    Json options;
    std::vector<const char*> says;
  } cases[] = {
      {{{"type", "pkm"}, {"d_k", 10}, {"top_k", 3}}, {"n_keys", "missing"}},
      {with("n_keys", 0), {".n_keys", "0", "1"}},
      {with("n_keys", 40000), {".n_keys", "40000", "32768"}},
      {with("n_keys", 11), {"sub_keys", "[2, 2, 12, 5]", "[2, 2, 11, 5]"}},
      {with("d_k", 11), {"d_k", "11", "odd"}},
      {with("d_k", 0), {".d_k", "0", "2"}},
      {with("d_k", 12), {"query.weight", "[20, 40]", "[24, 40]"}},
      {with("top_k", 13), {".top_k", "13", "12"}},
      {with("d_k", 600000), {".d_k", "600000", "524288"}},
      {with("top_k", 0), {".top_k", "0", "1"}},
      {with("num_heads", 3), {"query.weight", "[20, 40]", "[30, 40]"}},
      {with("num_heads", 0), {".num_heads", "0", "1"}},
  };
  for (const auto& [options, says] : cases) {
    const auto refused = layer.New(options);
    ASSERT_FALSE(refused.ok()) << Shown(options);
    for (const char* part : says) EXPECT_THAT(refused.status().message(), HasSubstr(part)) << Shown(options);
  }
  Json heads = layer.options();
  heads.erase("num_heads");
  EXPECT_TRUE(layer.New(heads).ok()) << "num_attention_heads is 2";
}

}  // namespace
}  // namespace heed
