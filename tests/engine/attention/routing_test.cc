// `routing` against its definition, written out in double after the paper.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

using Numbers = std::vector<double>;

AttentionExample Routed(const std::string& options, Place place) {
  return {"routing", options, place, 32, 4, WithCentroids(32, 0, {4, 5, 8})};
}

class Definition {
 public:
  explicit Definition(const Layer& layer)
      : layer_(layer),
        o_(layer.options()),
        heads_(layer.example().num_heads),
        local_(o_.value("local_heads", 0)),
        dim_(layer.example().width / heads_),
        clusters_(o_["clusters"]),
        window_(o_["window"]),
        shared_(o_.value("shared_qk", true)) {}

  // Rows from `first` on; as steps, of which each knows the tokens so far.
  void ExpectRows(const Passage& passage, bool steps, int64_t first = 0) {
    for (int head = 0; head < heads_; ++head) {
      if (head >= local_) Read(passage, head);
      for (int64_t i = first; i < passage.n(); ++i) {
        const Numbers expected = head < local_ ? Local(passage, i, head) : Routed(passage, i, head, steps);
        for (int64_t t = 0; t < dim_; ++t) {
          ASSERT_NEAR(passage.out().At(i, head * dim_ + t), expected[t], 3e-5)
              << o_ << " row " << i << " of " << passage.n() << " head " << head;
        }
      }
    }
  }

 private:
  Numbers Row(const Passage& passage, int product, int64_t i, int64_t column) const {
    Numbers row;
    for (int64_t t = 0; t < dim_; ++t) row.push_back(passage.product(product).At(i, column + t));
    return row;
  }
  Numbers Normed(Numbers row) const {
    double mean = 0, variance = 0;
    for (double x : row) mean += x / static_cast<double>(dim_);
    for (double x : row) variance += (x - mean) * (x - mean) / static_cast<double>(dim_);
    for (double& x : row) x = (x - mean) / std::sqrt(variance + 1e-6);
    return row;
  }
  static double Dot(const Numbers& a, const Numbers& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  }

  // A head's normed rows, and their scores with its centroids.
  void Read(const Passage& passage, int head) {
    q_.clear();
    k_.clear();
    for (int64_t i = 0; i < passage.n(); ++i) {
      q_.push_back(Normed(Row(passage, 0, i, head * dim_)));
      k_.push_back(shared_ ? q_.back() : Normed(Row(passage, 2, i, head * dim_)));
    }
    const float* centroids = layer_.tensor("centroids") + (head - local_) * clusters_ * dim_;
    of_queries_.assign(clusters_, Numbers(passage.n()));
    of_keys_ = of_queries_;
    for (int64_t c = 0; c < clusters_; ++c) {
      const Numbers centroid(centroids + c * dim_, centroids + (c + 1) * dim_);
      for (int64_t i = 0; i < passage.n(); ++i) {
        of_queries_[c][i] = Dot(centroid, q_[i]);
        of_keys_[c][i] = Dot(centroid, k_[i]);
      }
    }
    seen_ = -1;
  }

  // Of the first `seen` tokens.
  std::vector<bool> Members(const Numbers& scores, int64_t seen) const {
    std::vector<int64_t> order(seen);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::ranges::greater(), [&](int64_t i) { return scores[i]; });
    std::vector<bool> members(scores.size());
    for (int64_t i = 0; i < std::min(window_, seen); ++i) members[order[i]] = true;
    return members;
  }

  Numbers Routed(const Passage& passage, int64_t i, int head, bool steps) {
    const int64_t seen = steps ? i + 1 : passage.n();
    if (seen != std::exchange(seen_, seen)) {
      queries_.clear();
      keys_.clear();
      for (int64_t c = 0; c < clusters_; ++c) {
        queries_.push_back(Members(of_queries_[c], seen));
        keys_.push_back(Members(of_keys_[c], seen));
      }
    }
    const double scale = o_.value("scale", 1 / std::sqrt(static_cast<double>(dim_)));
    Numbers mean(dim_);
    double count = 0;
    for (int64_t c = 0; c < clusters_; ++c) {
      if (!queries_[c][i]) continue;
      Numbers sum(dim_);
      double total = 0;
      for (int64_t j = 0; j < seen; ++j) {
        if (!keys_[c][j] || (layer_.causal() && j > i)) continue;
        const double p = std::exp(scale * Dot(q_[i], k_[j]));
        total += p;
        for (int64_t t = 0; t < dim_; ++t) sum[t] += p * passage.product(1).At(j, head * dim_ + t);
      }
      if (total == 0) continue;
      ++count;
      for (int64_t t = 0; t < dim_; ++t) mean[t] += sum[t] / total;
    }
    for (double& x : mean) x /= std::max(count, 1.0);
    return mean;
  }

  Numbers Local(const Passage& passage, int64_t i, int head) const {
    const int64_t window = o_["local_window"];
    const Numbers q = Row(passage, 0, i, head * dim_);
    Numbers result(dim_);
    double total = 0;
    for (int64_t j = 0; j < passage.n(); ++j) {
      const bool sees = layer_.causal() ? j <= i && i - j < window : std::abs(i - j) <= window / 2;
      if (!sees) continue;
      const double p =
          std::exp(Dot(q, Row(passage, 2, j, head * dim_)) / std::sqrt(static_cast<double>(dim_)));
      total += p;
      for (int64_t t = 0; t < dim_; ++t) result[t] += p * passage.product(1).At(j, head * dim_ + t);
    }
    for (double& x : result) x /= total;
    return result;
  }

  const Layer& layer_;
  const Json& o_;
  int heads_, local_;
  int64_t dim_, clusters_, window_;
  bool shared_;
  std::vector<Numbers> q_, k_, of_queries_, of_keys_;
  int64_t seen_ = -1;  // of the members
  std::vector<std::vector<bool>> queries_, keys_;
};

bool IsStrict(const Layer& layer) { return layer.options().value("strict_causal", false); }

TEST(Routing, IsTheDefinitionWithEveryOption) {
  for (const AttentionExample& example : AttentionExamples()) {
    if (example.type != "routing") continue;
    const Layer layer(example, Precision::kF32);
    for (int64_t n : {1, 15, 40, 41, 65, 97, 150, 300, 600})
      Definition(layer).ExpectRows(Whole(layer, n), IsStrict(layer));
  }
}

TEST(Routing, AStepKnowsTheTokensSoFar) {
  for (const AttentionExample& example : AttentionExamples()) {
    const Layer layer(example, Precision::kF32);
    if (example.type != "routing" || !layer.causal()) continue;
    for (int64_t prompt : {1, 30, 65, 150, 170}) {
      Passage steps(layer, 250);
      const auto run = layer.attention().Start();
      steps.Extend(*run, 0, prompt);
      steps.ExtendBy(*run, prompt, 250, 1);
      Definition(layer).ExpectRows(steps, true, prompt);
    }
  }
}

// A head so wide that a cluster is several tasks, as are the rows of a page where each reads its keys alone.
TEST(Routing, CutInTasksItIsTheDefinition) {
  for (const char* options : {R"({"clusters": 3, "window": 200})", R"({"clusters": 3, "window": 400})",
                              R"({"clusters": 45, "window": 200, "strict_causal": true})"}) {
    const int64_t clusters = (*ParseJson(options, "options"))["clusters"];
    const Layer layer(
        {"routing", options, Place::kDecoder, 512, 1, WithCentroids(512, 0, {1, clusters, 512})},
        Precision::kF32);
    const auto run = layer.attention().Start();
    const Passage passage(layer, 390);
    int64_t tasks = 0;
    for (const AttentionStage& stage : passage.Plan(*run)) tasks += stage.tasks;
    EXPECT_GT(tasks, 6) << options;
    Definition(layer).ExpectRows(Whole(layer, 390), IsStrict(layer));
  }
}

// Whole pieces and panels: nothing is computed that nobody sees.
TEST(Routing, ComputesTheScoresWithCentroidsAndThePairsInClusters) {
  for (const auto& [clusters, window] : {std::pair{64, 64}, std::pair{64, 128}, std::pair{128, 64}}) {
    const Layer layer({"routing", Cat(R"({"clusters": )", clusters, R"(, "window": )", window, "}"),
                       Place::kEncoder, 64, 2, WithCentroids(64, 0, {2, clusters, 32})},
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
