// `sinkhorn` against its definition, written out in double with all blocks and their whole matrix of weights.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Square = std::vector<std::vector<double>>;

AttentionExample Sorted(const std::string& options, Place place, int64_t blocks) {
  return {"sinkhorn", options, place, 32, 2, WithSorting(32, 2, blocks)};
}

void Normalise(std::vector<double*> numbers) {
  double peak = -kInfinity, sum = 0;
  for (const double* x : numbers) peak = std::max(peak, *x);
  for (const double* x : numbers) sum += std::exp(*x - peak);
  for (double* x : numbers) *x -= peak + std::log(sum);
}

Square Balanced(Square r, int iterations) {
  for (int i = 0; i < iterations; ++i) {
    for (bool columns : {false, true}) {
      for (size_t a = 0; a < r.size(); ++a) {
        std::vector<double*> line;
        for (size_t b = 0; b < r.size(); ++b) line.push_back(columns ? &r[b][a] : &r[a][b]);
        Normalise(line);
      }
    }
  }
  for (auto& row : r) {
    for (double& x : row) x = std::exp(x);
  }
  return r;
}

// One head of one passage.
class Definition {
 public:
  Definition(const Layer& layer, const Passage& passage, int head)
      : layer_(layer),
        passage_(passage),
        head_(head),
        dim_(layer.example().width / layer.example().num_heads),
        n_(passage.n()),
        block_(layer.options()["block"]),
        blocks_(Quotient(n_, block_)),
        cut_(layer.options().value("sort_cut", 0)) {
    MakeWeights();
  }

  void ExpectRows(double tolerance) const {
    const bool two = layer_.options().value("two_softmax", false) && cut_ == 0;
    for (int64_t i = 0; i < n_; ++i) {
      std::vector<Key> own, sorted;
      See(i, own, sorted);
      std::vector<double> row(dim_);
      if (!two) own.insert(own.end(), sorted.begin(), sorted.end());
      Attend(i, own, row);
      if (two) Attend(i, sorted, row);
      for (int64_t c = 0; c < dim_; ++c) {
        ASSERT_NEAR(passage_.out().At(i, head_ * dim_ + c), row[c], tolerance)
            << layer_.options() << " row " << i << " of " << n_ << " head " << head_;
      }
    }
  }

 private:
  // A token, or the mixture of those at a place of all blocks.
  struct Key {
    std::vector<double> key, value;
  };

  double At(int product, int64_t i, int64_t c) const {
    return passage_.product(product).At(i, head_ * dim_ + c);
  }
  double Score(int64_t row, int64_t column) const {
    const int64_t begin = layer_.causal() ? 0 : row * block_;
    const int64_t end = layer_.causal() ? row * block_ + 1 : std::min(n_, begin + block_);
    const float* sort = layer_.tensor("sort.weight") +
                        (head_ * layer_.options()["max_blocks"].get<int64_t>() + column) * dim_;
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t c = 0; c < dim_; ++c) sum += At(1, i, c) * sort[c];
    }
    return sum / layer_.options().value("temperature", 0.75);
  }

  void MakeWeights() {
    const int iterations = layer_.options().value("iterations", 5);
    Square r(blocks_, std::vector<double>(blocks_));
    for (int64_t i = 0; i < blocks_; ++i) {
      for (int64_t j = 0; j < blocks_; ++j) r[i][j] = Score(i, j);
    }
    if (!layer_.causal()) {
      weights_ = Balanced(r, iterations);
      return;
    }
    weights_ = Square(blocks_, std::vector<double>(blocks_));
    for (int64_t i = 1; i < blocks_; ++i) {
      Square part(i, std::vector<double>(i, -kInfinity));
      for (int64_t a = 0; a < i; ++a) std::copy_n(r[a + 1].begin(), a + 1, part[a].begin());
      std::ranges::copy(Balanced(part, iterations).back(), weights_[i].begin());
    }
  }

  Key Mixture(int64_t sorted, int64_t place) const {
    Key mixture{std::vector<double>(dim_), std::vector<double>(dim_)};
    for (int64_t j = 0; j < blocks_ && j * block_ + place < n_; ++j) {
      for (int64_t c = 0; c < dim_; ++c) {
        mixture.key[c] += weights_[sorted][j] * At(1, j * block_ + place, c);
        mixture.value[c] += weights_[sorted][j] * At(2, j * block_ + place, c);
      }
    }
    return mixture;
  }

  void See(int64_t i, std::vector<Key>& own, std::vector<Key>& sorted) const {
    const int64_t block = i / block_;
    for (int64_t j = block * block_; j < std::min(n_, (block + 1) * block_) && cut_ == 0; ++j) {
      if (layer_.causal() && j > i) break;
      Key key;
      for (int64_t c = 0; c < dim_; ++c) {
        key.key.push_back(At(1, j, c));
        key.value.push_back(At(2, j, c));
      }
      own.push_back(key);
    }
    if (layer_.causal() && block == 0) return;
    const int64_t first = cut_ > 0 ? 0 : block, last = cut_ > 0 ? std::min(cut_, blocks_) : block + 1;
    for (int64_t s = first; s < last; ++s) {
      for (int64_t place = 0; place < std::min(block_, n_); ++place) sorted.push_back(Mixture(s, place));
    }
  }

  // Adds one softmax's result.
  void Attend(int64_t i, const std::vector<Key>& keys, std::vector<double>& row) const {
    std::vector<double> scores;
    for (const Key& key : keys) {
      double score = 0;
      for (int64_t c = 0; c < dim_; ++c) score += At(0, i, c) * key.key[c];
      scores.push_back(score / std::sqrt(static_cast<double>(dim_)));
    }
    if (keys.empty()) return;
    const double peak = *std::ranges::max_element(scores);
    double sum = 0;
    for (double score : scores) sum += std::exp(score - peak);
    for (size_t j = 0; j < keys.size(); ++j) {
      for (int64_t c = 0; c < dim_; ++c) row[c] += std::exp(scores[j] - peak) / sum * keys[j].value[c];
    }
  }

  const Layer& layer_;
  const Passage& passage_;
  int head_;
  int64_t dim_, n_, block_, blocks_, cut_;
  Square weights_;  // S
};

void ExpectTheDefinition(const AttentionExample& example, std::initializer_list<int64_t> lengths,
                         double tolerance) {
  const Layer layer(example, Precision::kF32);
  for (int64_t n : lengths) {
    const Passage whole = Whole(layer, n);
    for (int head = 0; head < example.num_heads; ++head) Definition(layer, whole, head).ExpectRows(tolerance);
  }
}

TEST(Sinkhorn, IsTheDefinitionWithEveryOption) {
  for (const AttentionExample& example : AttentionExamples()) {
    if (example.type == "sinkhorn") ExpectTheDefinition(example, {1, 24, 25, 26, 64, 150, 350}, 3e-5);
  }
}

TEST(Sinkhorn, IsTheDefinitionInEveryForm) {
  for (const char* options :
       {R"({"block": 1, "max_blocks": 100})", R"({"block": 6, "max_blocks": 40, "temperature": 3})",
        R"({"block": 6, "max_blocks": 40, "two_softmax": true, "iterations": 1})",
        R"({"block": 130, "max_blocks": 40, "two_softmax": true})",
        R"({"block": 6, "max_blocks": 40, "iterations": 0, "temperature": 100})",
        R"({"block": 6, "max_blocks": 40, "sort_cut": 0, "two_softmax": true})"}) {
    for (Place place : {Place::kDecoder, Place::kEncoder}) {
      const Json parsed = *ParseJson(options, "options");
      ExpectTheDefinition(Sorted(options, place, parsed["max_blocks"]), {1, 5, 6, 7, 100}, 3e-5);
    }
  }
  for (const char* options : {R"({"block": 6, "max_blocks": 40, "sort_cut": 1})",
                              R"({"block": 8, "max_blocks": 40, "sort_cut": 5000, "two_softmax": true})"}) {
    ExpectTheDefinition(Sorted(options, Place::kEncoder, 40), {1, 5, 7, 8, 100, 240}, 3e-5);
  }
}

// Balancing is by logarithms: sums of many keys, or a low temperature, make scores far apart.
TEST(Sinkhorn, ScoresFarApartAreBalancedToo) {
  const std::string options = R"({"block": 8, "max_blocks": 40, "temperature": 0.02})";
  for (Place place : {Place::kDecoder, Place::kEncoder})
    ExpectTheDefinition(Sorted(options, place, 40), {100, 300}, 3e-3);
}

// What n tokens of 2 heads of 16 cost: pairs in their own and in sorted blocks, and mixtures of whole blocks.
TEST(Sinkhorn, WorkIsThatOfBlocksAndOfTheirMixtures) {
  constexpr int64_t kBlock = 64, kLength = 2048, kBlocks = kLength / kBlock;
  const std::string options = R"({"block": 64, "max_blocks": 64})";
  for (Place place : {Place::kDecoder, Place::kEncoder}) {
    const Layer layer(Sorted(options, place, 64), Precision::kF32);
    const int64_t work = MultiplyAddsOf(layer, kLength);
    int64_t mixed = 0;
    for (int64_t i = 0; i < kBlocks; ++i) mixed += layer.causal() ? RoundUp(i + 1, 16) : kBlocks;
    EXPECT_LE(work, 2 * (kLength * 2 * kBlock + mixed * kBlock) * 2 * 16) << options;
    EXPECT_LE(static_cast<double>(work), 2 * layer.attention().Cost(kLength, kLength));
  }
}

TEST(Sinkhorn, AStepMixesBlocksOnlyWhenABlockBegins) {
  const Layer layer(Sorted(R"({"block": 64, "max_blocks": 64})", Place::kDecoder, 64), Precision::kF32);
  Passage passage(layer, 1026);
  const auto run = layer.attention().Start();
  passage.Extend(*run, 0, 1023);
  const auto work = [&](int64_t token) {
    const int64_t before = MicroKernel::MultiplyAdds();
    passage.Extend(*run, token, token + 1);
    return MicroKernel::MultiplyAdds() - before;
  };
  EXPECT_LE(work(1023), 2 * 2 * 64 * 2 * 16);
  const int64_t mixes = work(1024);
  EXPECT_GE(mixes, 2 * 1024 * 2 * 16) << "16 blocks of 64 keys and values";
  EXPECT_LE(mixes, 2 * (1024 + 2 * 64) * 2 * 16);
  EXPECT_LE(work(1025), 2 * 2 * 64 * 2 * 16);
}

TEST(Sinkhorn, ReadsAsManyTokensAsItHasBlocks) {
  const Layer layer(Sorted(R"({"block": 6, "max_blocks": 40})", Place::kDecoder, 40), Precision::kF32);
  EXPECT_EQ(layer.attention().max_tokens(), 240);
}

TEST(Sinkhorn, AnEncoderHoldsNothingAfterItsRows) {
  const Layer layer(Sorted(R"({"block": 6, "max_blocks": 40})", Place::kEncoder, 40), Precision::kF32);
  const auto run = layer.attention().Start();
  Passage passage(layer, 200);
  const int64_t before = LastingMemory::Bytes(), most = MostWhileAttending(passage, *run);
  EXPECT_GT(most, 0);
  EXPECT_LE(most, layer.attention().StateBytes(200));
  EXPECT_EQ(LastingMemory::Bytes(), before);
}

TEST(Sinkhorn, RefusesWhatCannotBe) {
  const std::vector<Refusal> refusals = {
      {Place::kDecoder, R"({"max_blocks": 40})", {"layers[0].attention", "block"}},
      {Place::kDecoder, R"({"block": 0, "max_blocks": 40})", {"block", "0", "1"}},
      {Place::kDecoder, R"({"block": 6})", {"max_blocks"}},
      {Place::kDecoder, R"({"block": 6, "max_blocks": 5000})", {"max_blocks", "5000", "4096"}},
      {Place::kDecoder,
       R"({"block": 6, "max_blocks": 4096})",
       {"max_blocks", "4096", "5 iterations", "67108864"}},
      {Place::kDecoder, R"({"block": 6, "max_blocks": 40, "iterations": -1})", {"iterations", "-1", "0"}},
      {Place::kDecoder, R"({"block": 6, "max_blocks": 40, "temperature": 0})", {"temperature", "0"}},
      {Place::kDecoder, R"({"block": 6, "max_blocks": 40, "sort_cut": 2})", {"sort_cut", "2", "decoder"}},
      {Place::kEncoder, R"({"block": 6, "max_blocks": 40, "sort_cut": -1})", {"sort_cut", "-1", "0"}},
      {Place::kCross, R"({"block": 6, "max_blocks": 40})", {"cross-attention"}},
      {Place::kDecoder, R"({"block": 6, "max_blocks": 41})", {"sort.weight", "41", "40"}},
  };
  const Layer layer(Sorted(R"({"block": 6, "max_blocks": 40})", Place::kDecoder, 40), Precision::kF32);
  ExpectRefused(layer, layer.scope(), refusals);
}

}  // namespace
}  // namespace heed
