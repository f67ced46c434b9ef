// `lsh` against its definition, written out in double after the paper and its widely used implementation.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

AttentionExample Hashed(const std::string& options, Place place) {
  return {"lsh", options, place, 32, 4, WithRotations(32, 4, 2, 4)};
}

// How often each key stands among those that a row reads in a round.
using Counts = std::vector<std::map<int64_t, int>>;

struct Definition {
  explicit Definition(const Layer& layer)
      : layer(layer),
        o(layer.options()),
        heads(layer.example().num_heads),
        dim(layer.example().width / heads) {
    chunk = o["chunk_length"];
    before = o.value("chunks_before", 1);
    after = o.value("chunks_after", 0);
    rounds = o["num_hashes"];
    const Json& buckets = o["num_buckets"];
    for (int64_t factor : buckets.is_array() ? buckets : Json::array({buckets})) factors.push_back(factor);
    directions = std::accumulate(factors.begin(), factors.end(), int64_t{0}) / 2;
  }

  int64_t Bucket(const Passage& passage, int64_t i, int head, int64_t round) const {
    int64_t bucket = 0, product = 1, direction = 0;
    for (int64_t factor : factors) {
      std::vector<double> projections;
      for (int64_t b = 0; b < factor / 2; ++b) {
        double sum = 0;
        for (int64_t t = 0; t < dim; ++t) {
          sum += passage.product(0).At(i, head * dim + t) *
                 layer.tensor("rotations")[((head * dim + t) * rounds + round) * directions + direction + b];
        }
        projections.push_back(sum);
      }
      for (int64_t b = 0; b < factor / 2; ++b) projections.push_back(-projections[b]);
      bucket += product * (std::ranges::max_element(projections) - projections.begin());
      product *= factor;
      direction += factor / 2;
    }
    return bucket;
  }

  // The order of (bucket, position) of all rounds, one circular list of chunks.
  std::vector<Counts> BySorting(const Passage& passage, int head) const {
    const int64_t n = passage.n(), chunks = (n + chunk - 1) / chunk;
    std::vector<int64_t> slots;
    for (int64_t round = 0; round < rounds; ++round) {
      std::vector<std::pair<int64_t, int64_t>> order;
      for (int64_t i = 0; i < n; ++i) order.emplace_back(Bucket(passage, i, head, round), i);
      std::ranges::sort(order);
      for (const auto& [bucket, i] : order) slots.push_back(i);
      slots.resize((round + 1) * chunks * chunk, -1);
    }
    std::vector<Counts> counts(rounds, Counts(n));
    const int64_t size = std::ssize(slots);
    for (int64_t slot = 0; slot < size; ++slot) {
      const int64_t begin = (slot / chunk - before) * chunk, end = (slot / chunk + after + 1) * chunk;
      for (int64_t other = begin; other < end && slots[slot] >= 0; ++other) {
        const int64_t key = slots[(other % size + size) % size];
        if (key >= 0) ++counts[slot / (chunks * chunk)][slots[slot]][key];
      }
    }
    return counts;
  }

  // The lists of the buckets in order of arrival.
  std::vector<Counts> ByArrival(const Passage& passage, int head) const {
    std::vector<Counts> counts(rounds, Counts(passage.n()));
    for (int64_t round = 0; round < rounds; ++round) {
      std::map<int64_t, std::vector<int64_t>> lists;
      for (int64_t i = 0; i < passage.n(); ++i) {
        auto& list = lists[Bucket(passage, i, head, round)];
        list.push_back(i);
        const int64_t own = (std::ssize(list) - 1) / chunk;
        for (int64_t place = 0; place < std::ssize(list); ++place) {
          if (own - place / chunk <= before) counts[round][i][list[place]] = 1;
        }
      }
    }
    return counts;
  }

  std::vector<double> Row(const Passage& passage, const std::vector<Counts>& counts, int64_t i,
                          int head) const {
    std::vector<double> result(dim);
    double total = 0;
    for (const Counts& round : counts) {
      for (const auto& [j, count] : round[i]) {
        if (layer.causal() && j > i) continue;
        const double p = count * std::exp(j == i ? -300 : Score(passage, i, j, head));
        total += p;
        for (int64_t t = 0; t < dim; ++t) result[t] += p * passage.product(1).At(j, head * dim + t);
      }
    }
    for (double& x : result) x /= total;
    return result;
  }

  double Score(const Passage& passage, int64_t i, int64_t j, int head) const {
    double score = 0, squares = 0;
    for (int64_t t = 0; t < dim; ++t) {
      const double key = passage.product(0).At(j, head * dim + t);
      score += passage.product(0).At(i, head * dim + t) * key;
      squares += key * key;
    }
    return score / std::sqrt(squares / static_cast<double>(dim) + 1e-6) / std::sqrt(static_cast<double>(dim));
  }

  void ExpectRows(const Passage& passage, bool steps) const {
    for (int head = 0; head < heads; ++head) {
      std::vector<Counts> counts = steps ? ByArrival(passage, head) : BySorting(passage, head);
      if (!steps && passage.n() <= chunk) {
        counts = {Counts(passage.n())};
        for (auto& row : counts[0]) {
          for (int64_t j = 0; j < passage.n(); ++j) row[j] = 1;
        }
      }
      for (int64_t i = 0; i < passage.n(); ++i) {
        const std::vector<double> expected = Row(passage, counts, i, head);
        for (int64_t t = 0; t < dim; ++t) {
          ASSERT_NEAR(passage.out().At(i, head * dim + t), expected[t], 2e-5)
              << o << " row " << i << " of " << passage.n() << " head " << head;
        }
      }
    }
  }

  const Layer& layer;
  const Json& o;
  int heads;
  int64_t dim, chunk, before, after, rounds, directions;
  std::vector<int64_t> factors;
};

TEST(Lsh, IsTheDefinitionWithEveryOption) {
  for (const AttentionExample& example : AttentionExamples()) {
    if (example.type != "lsh") continue;
    const Layer layer(example, Precision::kF32);
    for (int64_t n : {1, 15, 21, 150, 151, 300}) {
      Definition(layer).ExpectRows(Whole(layer, n), layer.options().value("strict_causal", false));
    }
  }
}

TEST(Lsh, AStepReadsWhatHasArrived) {
  for (const AttentionExample& example : AttentionExamples()) {
    const Layer layer(example, Precision::kF32);
    if (example.type != "lsh" || !layer.causal()) continue;
    Passage steps(layer, 200);
    steps.ExtendBy(*layer.attention().Start(), 0, 200, 1);
    Definition(layer).ExpectRows(steps, true);
  }
}

// A head so wide that a round is several tasks: some chunks each, or a part of one.
TEST(Lsh, RoundsCutInTasksAreTheDefinition) {
  for (const char* options :
       {R"({"chunk_length": 64, "num_hashes": 2, "num_buckets": 8})",
        R"({"chunk_length": 200, "num_hashes": 2, "num_buckets": 8})",
        R"({"chunk_length": 64, "num_hashes": 2, "num_buckets": 8, "strict_causal": true})"}) {
    const Layer layer({"lsh", options, Place::kDecoder, 512, 1, WithRotations(512, 1, 2, 4)},
                      Precision::kF32);
    const auto run = layer.attention().Start();
    int64_t most = 0;
    for (const AttentionStage& stage : Passage(layer, 450).Plan(*run)) most = std::max(most, stage.tasks);
    EXPECT_GT(most, 3) << options;
    Definition(layer).ExpectRows(Whole(layer, 450), layer.options().value("strict_causal", false));
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
