// The definitions of attentions whose tokens decide by what they are which of them meet: hashes, clusters,
// sorted blocks.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/base/round.h"
#include "tests/engine/attention/definitions.h"

namespace heed {
namespace {

using Vector = std::vector<double>;

// -------------------------------------------------------------------------------------------------- lsh

// How often each key stands among those that a row reads in a round.
using Counts = std::vector<std::map<int64_t, int>>;

class Lsh {
 public:
  Lsh(const Passage& passage, int head, bool by_steps)
      : passage_(passage),
        layer_(passage.layer()),
        head_(head),
        dim_(layer_.attention().out_width() / layer_.example().num_heads) {
    const Json& o = layer_.options();
    chunk_ = o["chunk_length"];
    before_ = o.value("chunks_before", 1);
    after_ = o.value("chunks_after", 0);
    rounds_ = o["num_hashes"];
    const Json& buckets = o["num_buckets"];
    for (int64_t factor : buckets.is_array() ? buckets : Json::array({buckets})) factors_.push_back(factor);
    directions_ = std::accumulate(factors_.begin(), factors_.end(), int64_t{0}) / 2;
    counts_ = by_steps || o.value("strict_causal", false) ? ByArrival() : BySorting();
  }

  DefinedRow Row(int64_t i) const {
    DefinedSoftmax softmax(dim_);
    for (const Counts& round : counts_) {
      for (const auto& [j, count] : round[i]) {
        if (layer_.causal() && j > i) continue;
        softmax.Add(
            j == i ? Sum{-300} : Score(i, j),
            [&, key = j](int64_t t) { return passage_.product(1).At(key, head_ * dim_ + t); }, count);
      }
    }
    return softmax.Row();
  }

 private:
  int64_t Bucket(int64_t i, int64_t round) const {
    int64_t bucket = 0, product = 1, direction = 0;
    for (int64_t factor : factors_) {
      Vector projections;
      for (int64_t b = 0; b < factor / 2; ++b) projections.push_back(Projection(i, round, direction + b));
      for (int64_t b = 0; b < factor / 2; ++b) projections.push_back(-projections[b]);
      bucket += product * (std::ranges::max_element(projections) - projections.begin());
      product *= factor;
      direction += factor / 2;
    }
    return bucket;
  }
  double Projection(int64_t i, int64_t round, int64_t direction) const {
    const float* rotations = layer_.tensor("rotations");
    double sum = 0;
    for (int64_t t = 0; t < dim_; ++t) {
      sum += passage_.product(0).At(i, head_ * dim_ + t) *
             rotations[((head_ * dim_ + t) * rounds_ + round) * directions_ + direction];
    }
    return sum;
  }

  // The order of (bucket, position) of all rounds, one circular list of chunks. One chunk: all see all.
  std::vector<Counts> BySorting() const {
    const int64_t n = passage_.n(), chunks = Quotient(n, chunk_);
    if (chunks == 1) {
      Counts all(n);
      for (auto& row : all) {
        for (int64_t j = 0; j < n; ++j) row[j] = 1;
      }
      return {all};
    }
    std::vector<int64_t> slots;
    for (int64_t round = 0; round < rounds_; ++round) {
      std::vector<std::pair<int64_t, int64_t>> order;
      for (int64_t i = 0; i < n; ++i) order.emplace_back(Bucket(i, round), i);
      std::ranges::sort(order);
      for (const auto& [bucket, i] : order) slots.push_back(i);
      slots.resize((round + 1) * chunks * chunk_, -1);
    }
    std::vector<Counts> counts(rounds_, Counts(n));
    const int64_t size = std::ssize(slots);
    for (int64_t slot = 0; slot < size; ++slot) {
      const int64_t begin = (slot / chunk_ - before_) * chunk_, end = (slot / chunk_ + after_ + 1) * chunk_;
      for (int64_t other = begin; other < end && slots[slot] >= 0; ++other) {
        const int64_t key = slots[(other % size + size) % size];
        if (key >= 0) ++counts[slot / (chunks * chunk_)][slots[slot]][key];
      }
    }
    return counts;
  }

  // The lists of the buckets in order of arrival.
  std::vector<Counts> ByArrival() const {
    std::vector<Counts> counts(rounds_, Counts(passage_.n()));
    for (int64_t round = 0; round < rounds_; ++round) {
      std::map<int64_t, std::vector<int64_t>> lists;
      for (int64_t i = 0; i < passage_.n(); ++i) {
        auto& list = lists[Bucket(i, round)];
        list.push_back(i);
        const int64_t own = (std::ssize(list) - 1) / chunk_;
        for (int64_t place = 0; place < std::ssize(list); ++place) {
          if (own - place / chunk_ <= before_) counts[round][i][list[place]] = 1;
        }
      }
    }
    return counts;
  }

  // Keys are queries of one length.
  Sum Score(int64_t i, int64_t j) const {
    const Vector q = HeadOf(passage_.product(0), i, head_, dim_),
                 k = HeadOf(passage_.product(0), j, head_, dim_);
    const auto numbers = static_cast<double>(dim_);
    return Dot(q, k) * (1 / std::sqrt(Dot(k, k).value / numbers + 1e-6) / std::sqrt(numbers));
  }

  const Passage& passage_;
  const Layer& layer_;
  int head_;
  int64_t dim_, chunk_, before_, after_, rounds_, directions_;
  std::vector<int64_t> factors_;
  std::vector<Counts> counts_;
};

// ---------------------------------------------------------------------------------------------- routing

class Routing {
 public:
  Routing(const Passage& passage, int head, bool by_steps)
      : passage_(passage),
        layer_(passage.layer()),
        o_(layer_.options()),
        head_(head),
        dim_(layer_.example().width / layer_.example().num_heads),
        clusters_(o_["clusters"]),
        window_(o_["window"]),
        by_steps_(by_steps || o_.value("strict_causal", false)),
        local_(head < o_.value("local_heads", 0)) {
    if (!local_) Read();
  }

  DefinedRow Row(int64_t i) { return local_ ? Local(i) : Routed(i); }

 private:
  Vector Normed(Vector row) const {
    double mean = 0, variance = 0;
    for (double x : row) mean += x / static_cast<double>(dim_);
    for (double x : row) variance += (x - mean) * (x - mean) / static_cast<double>(dim_);
    for (double& x : row) x = (x - mean) / std::sqrt(variance + 1e-6);
    return row;
  }
  Vector Key(int64_t j) const { return HeadOf(ProductOf(passage_, "k"), j, head_, dim_); }

  // Normed rows, and their scores with the centroids.
  void Read() {
    const bool shared = o_.value("shared_qk", true);
    for (int64_t i = 0; i < passage_.n(); ++i) {
      q_.push_back(Normed(HeadOf(passage_.product(0), i, head_, dim_)));
      k_.push_back(shared ? q_.back() : Normed(Key(i)));
    }
    const int64_t first = head_ - o_.value("local_heads", 0);
    for (int64_t c = 0; c < clusters_; ++c) {
      const float* centroid = layer_.tensor("centroids") + (first * clusters_ + c) * dim_;
      const Vector numbers(centroid, centroid + dim_);
      Vector of_queries, of_keys;
      for (int64_t i = 0; i < passage_.n(); ++i) {
        of_queries.push_back(Dot(numbers, q_[i]).value);
        of_keys.push_back(Dot(numbers, k_[i]).value);
      }
      of_queries_.push_back(of_queries);
      of_keys_.push_back(of_keys);
    }
  }

  // Of the first `seen` tokens.
  std::vector<bool> Members(const Vector& scores, int64_t seen) const {
    std::vector<int64_t> order(seen);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::ranges::greater(), [&](int64_t i) { return scores[i]; });
    std::vector<bool> members(scores.size());
    for (int64_t i = 0; i < std::min(window_, seen); ++i) members[order[i]] = true;
    return members;
  }
  void Choose(int64_t seen) {
    if (seen == std::exchange(seen_, seen)) return;
    queries_.clear();
    keys_.clear();
    for (int64_t c = 0; c < clusters_; ++c) {
      queries_.push_back(Members(of_queries_[c], seen));
      keys_.push_back(Members(of_keys_[c], seen));
    }
  }

  // The mean over the clusters that the row is a member of.
  DefinedRow Routed(int64_t i) {
    const int64_t seen = by_steps_ ? i + 1 : passage_.n();
    Choose(seen);
    DefinedRow mean{Vector(dim_)};
    double count = 0;
    for (int64_t c = 0; c < clusters_; ++c) {
      if (!queries_[c][i]) continue;
      bool any = false;
      const DefinedRow row = OfCluster(i, c, seen, any);
      if (!any) continue;
      ++count;
      mean.bound = std::max(mean.bound, row.bound);
      for (int64_t t = 0; t < dim_; ++t) mean.numbers[t] += row.numbers[t];
    }
    for (double& x : mean.numbers) x /= std::max(count, 1.0);
    return mean;
  }
  DefinedRow OfCluster(int64_t i, int64_t c, int64_t seen, bool& any) const {
    DefinedSoftmax softmax(dim_);
    const double scale = o_.value("scale", 1 / std::sqrt(static_cast<double>(dim_)));
    for (int64_t j = 0; j < (layer_.causal() ? i + 1 : seen); ++j) {
      if (!keys_[c][j]) continue;
      any = true;
      softmax.Add(Dot(q_[i], k_[j]) * scale,
                  [&](int64_t t) { return passage_.product(1).At(j, head_ * dim_ + t); });
    }
    return softmax.Row();
  }

  DefinedRow Local(int64_t i) const {
    const int64_t window = o_["local_window"];
    const Vector q = HeadOf(passage_.product(0), i, head_, dim_);
    DefinedSoftmax softmax(dim_);
    for (int64_t j = 0; j < passage_.n(); ++j) {
      if (layer_.causal() ? j > i || i - j >= window : std::abs(i - j) > window / 2) continue;
      softmax.Add(Dot(q, Key(j)) * (1 / std::sqrt(static_cast<double>(dim_))),
                  [&](int64_t t) { return passage_.product(1).At(j, head_ * dim_ + t); });
    }
    return softmax.Row();
  }

  const Passage& passage_;
  const Layer& layer_;
  const Json& o_;
  int head_;
  int64_t dim_, clusters_, window_;
  bool by_steps_, local_;
  std::vector<Vector> q_, k_, of_queries_, of_keys_;
  int64_t seen_ = -1;  // of the members
  std::vector<std::vector<bool>> queries_, keys_;
};

// --------------------------------------------------------------------------------------------- sinkhorn

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Square = std::vector<Vector>;

void Normalise(const std::vector<double*>& numbers) {
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

// With all blocks and their whole matrix of weights.
class Sinkhorn {
 public:
  Sinkhorn(const Passage& passage, int head)
      : passage_(passage),
        layer_(passage.layer()),
        head_(head),
        dim_(layer_.example().width / layer_.example().num_heads),
        n_(passage.n()),
        block_(layer_.options()["block"]),
        blocks_(Quotient(n_, block_)),
        cut_(layer_.options().value("sort_cut", 0)) {
    MakeWeights();
  }

  // What balancing is off by, mixtures and scores are too: measured, not derived.
  DefinedRow Row(int64_t i) const {
    const bool two = layer_.options().value("two_softmax", false) && cut_ == 0;
    DefinedSoftmax own(dim_), sorted(dim_);
    See(i, own, two ? sorted : own);
    DefinedRow row{own.Row().numbers, 3e-5};
    for (int64_t t = 0; t < dim_ && two; ++t) row.numbers[t] += sorted.Row().numbers[t];
    return row;
  }

 private:
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
    Square r(blocks_, Vector(blocks_));
    for (int64_t i = 0; i < blocks_; ++i) {
      for (int64_t j = 0; j < blocks_; ++j) r[i][j] = Score(i, j);
    }
    if (!layer_.causal()) {
      weights_ = Balanced(r, iterations);
      return;
    }
    weights_ = Square(blocks_, Vector(blocks_));
    for (int64_t i = 1; i < blocks_; ++i) {
      Square part(i, Vector(i, -kInfinity));
      for (int64_t a = 0; a < i; ++a) std::copy_n(r[a + 1].begin(), a + 1, part[a].begin());
      std::ranges::copy(Balanced(part, iterations).back(), weights_[i].begin());
    }
  }

  // Of the tokens at a place of all blocks, as a block that is sorted has them: keys (1) or values (2).
  Vector Mixture(int product, int64_t sorted, int64_t place) const {
    Vector mixture(dim_);
    for (int64_t j = 0; j < blocks_ && j * block_ + place < n_; ++j) {
      for (int64_t c = 0; c < dim_; ++c)
        mixture[c] += weights_[sorted][j] * At(product, j * block_ + place, c);
    }
    return mixture;
  }

  void See(int64_t i, DefinedSoftmax& own, DefinedSoftmax& sorted) const {
    const double scale = 1 / std::sqrt(static_cast<double>(dim_));
    const Vector q = HeadOf(passage_.product(0), i, head_, dim_);
    const auto add = [&](DefinedSoftmax& softmax, const Vector& key, const Vector& value) {
      softmax.Add(Dot(q, key) * scale, [&](int64_t t) { return value[t]; });
    };
    const int64_t block = i / block_, end = std::min(n_, (block + 1) * block_);
    for (int64_t j = block * block_; j < (layer_.causal() ? i + 1 : end) && cut_ == 0; ++j) {
      add(own, HeadOf(passage_.product(1), j, head_, dim_), HeadOf(passage_.product(2), j, head_, dim_));
    }
    if (layer_.causal() && block == 0) return;
    const int64_t first = cut_ > 0 ? 0 : block, last = cut_ > 0 ? std::min(cut_, blocks_) : block + 1;
    for (int64_t s = first; s < last; ++s) {
      for (int64_t place = 0; place < std::min(block_, n_); ++place)
        add(sorted, Mixture(1, s, place), Mixture(2, s, place));
    }
  }

  const Passage& passage_;
  const Layer& layer_;
  int head_;
  int64_t dim_, n_, block_, blocks_, cut_;
  Square weights_;  // S
};

}  // namespace

DefinedHead DefinedLsh(const Passage& passage, int head, bool by_steps) {
  return [lsh = std::make_shared<Lsh>(passage, head, by_steps)](int64_t i) { return lsh->Row(i); };
}

DefinedHead DefinedRouting(const Passage& passage, int head, bool by_steps) {
  return
      [routing = std::make_shared<Routing>(passage, head, by_steps)](int64_t i) { return routing->Row(i); };
}

DefinedHead DefinedSinkhorn(const Passage& passage, int head, bool) {
  return [sinkhorn = std::make_shared<Sinkhorn>(passage, head)](int64_t i) { return sinkhorn->Row(i); };
}

}  // namespace heed
