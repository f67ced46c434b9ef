// `lsh` against its definition, written out in double after the paper and its widely used implementation.
#include <algorithm>
#include <cmath>
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
