#include "engine/attention/routed_run.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "engine/attention/head_steps.h"
#include "engine/attention/routed_head.h"
#include "engine/base/round.h"

namespace heed {
namespace {

using Options = RoutedOptions;

constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();
// Clusters whose members one task chooses.
constexpr int64_t kChosenClusters = 16;

std::vector<int32_t> Ascending(int64_t n) {
  std::vector<int32_t> all(n);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

class Run : public AttentionRun {
 public:
  explicit Run(const RoutedAttention& attention);
  Run(const Run& other) : attention_(other.attention_), heads_(other.heads_) {}
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override;
  int64_t tokens() const override { return heads_.front().tokens(); }

 private:
  // Rows that come whole: taken in, members chosen, some clusters at a time attended and added to the rows'
  // means. Rows that follow others one by one: all at once. Parts are of the clusters, or of the tokens that
  // follow.
  enum Kind { kTake, kChoose, kAttend, kMerge, kFollow };
  using Step = HeadSteps::Step;
  // What the steps hand on, of the rows at hand. Results lie where the scores lay.
  struct Work {
    float* scores;         // [sets, clusters, rows]
    Matrix<float> sums;    // [rows, head_dim]
    int32_t* counts;       // [rows], clusters in the sum
    Rows results, normed;  // [rows, head_dim] of clusters, [rows, head_dim] queries that are not the keys
  };

  const Options& options() const { return attention_->options(); }
  HeadSteps::Plan PlanWhole(int64_t rows);
  HeadSteps::Plan PlanFollowing(int64_t rows) const;
  Work WorkOf(const AttentionRows& rows, int head) const;
  void Take(const AttentionRows& rows, int head, int64_t cut, Scratch& scratch);
  void Choose(const AttentionRows& rows, int head, int64_t cut, Scratch& scratch);
  void Attend(const AttentionRows& rows, int head, int64_t first, int64_t cut, Scratch& scratch);
  void Merge(const AttentionRows& rows, int head, Range clusters, int64_t cut, Scratch& scratch);
  // Of rows that come whole, which may all be one cluster.
  bool together() const { return tokens() <= options().window; }
  std::span<const int32_t> Keys(int head, int64_t cluster) const;
  std::span<const int32_t> Queries(int head, int64_t cluster) const;

  const RoutedAttention* attention_;
  std::vector<RoutedHead> heads_;
  // Of the rows at hand.
  int64_t from_ = 0;          // tokens before
  int64_t tiles_ = 1;         // of a cluster
  std::vector<int32_t> all_;  // tokens, if they are one cluster
  HeadSteps steps_;
};

Run::Run(const RoutedAttention& attention) : attention_(&attention) {
  for (int head = 0; head < options().heads; ++head) heads_.emplace_back(attention, head);
}

std::vector<AttentionStage> Run::Begin(const AttentionRows& rows) {
  const Options& o = options();
  from_ = tokens();
  all_ = {};
  for (RoutedHead& head : heads_) head.Grow(rows.count);
  const bool few = o.causal && rows.count <= std::min(RoutedAttention::kFewRows, o.window);
  const bool following = o.strict || rows.first > 0 || few;
  return steps_.Begin(following ? PlanFollowing(rows.count) : PlanWhole(rows.count));
}

// As many clusters at a time as the rows have room for.
HeadSteps::Plan Run::PlanWhole(int64_t n) {
  const Options& o = options();
  const int64_t clusters = together() ? 1 : o.clusters, members = std::min(n, o.window);
  const double taken = static_cast<double>(std::min(n, kTakenRows)), width = static_cast<double>(o.head_dim);
  HeadSteps::Plan plan{.heads = o.heads,
                       .at_once = attention_->HeadsAtOnce(n),
                       .few = n <= RoutedAttention::kFewRows,
                       .bytes = attention_->WorkBytes(n)};
  if (together()) all_ = Ascending(n);
  tiles_ = Quotient(members, attention_->ClusterRows());
  plan.steps.push_back(
      {.kind = kTake, .cuts = TakenCuts(0, n), .cost = taken * (o.choosing_cost() + 2 * kMoved * width)});
  if (attention_->HasMembers(n)) {
    plan.steps.push_back({.kind = kChoose,
                          .cuts = Quotient(o.sets() * o.clusters, kChosenClusters),
                          .cost = kMoved * static_cast<double>(n * kChosenClusters)});
  }
  const double attending = o.pair_cost() * static_cast<double>(members) *
                           static_cast<double>(std::min(members, attention_->ClusterRows()));
  const int64_t at_a_time = std::clamp<int64_t>(n / o.window, 1, clusters);
  for (int64_t first = 0; first < clusters; first += at_a_time) {
    const Range part{first, std::min(first + at_a_time, clusters)};
    plan.steps.push_back({kAttend, part, part.size() * tiles_, attending});
    plan.steps.push_back({kMerge, part, Quotient(n, kTakenRows), 2 * kMoved * taken * width});
  }
  return plan;
}

// So many rows to a task that it is not too long if each of them is a member everywhere.
HeadSteps::Plan Run::PlanFollowing(int64_t rows) const {
  const Options& o = options();
  const double keys = static_cast<double>(std::min(tokens(), o.window)),
               clusters = together() ? 1.0 : static_cast<double>(o.clusters),
               row_cost = o.choosing_cost() + clusters * keys * o.pair_cost();
  int64_t unit = kGrid;
  while (unit > 1 && static_cast<double>(unit) * row_cost > kTaskCost) unit /= 2;
  HeadSteps::Plan plan{.heads = o.heads, .at_once = o.heads};
  for (int64_t token = from_, end; token < from_ + rows; token = end) {
    end = std::min(RoundDown(token, unit) + unit, from_ + rows);
    plan.steps.push_back({kFollow, {token, end}, 1, row_cost * static_cast<double>(end - token)});
  }
  return plan;
}

void Run::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  steps_.Do(stage, task, [&](const Step& step, int head, int64_t cut) {
    switch (step.kind) {
      case kTake:
        return Take(rows, head, cut, scratch);
      case kChoose:
        return Choose(rows, head, cut, scratch);
      case kAttend:
        return Attend(rows, head, step.part.begin, cut, scratch);
      case kMerge:
        return Merge(rows, head, step.part, cut, scratch);
      case kFollow:
        return heads_[head].Follow(rows, from_, step.part, scratch);
    }
  });
}

Run::Work Run::WorkOf(const AttentionRows& rows, int head) const {
  const int64_t n = rows.count, dim = options().head_dim, bytes = attention_->WorkBytes(n);
  char* memory = steps_.memory(head);
  const DType type = attention_->core().type();
  Work work;
  work.scores = reinterpret_cast<float*>(memory);
  work.sums = {work.scores, n, dim, dim};
  work.counts = reinterpret_cast<int32_t*>(work.scores + n * dim);
  work.results = {type, work.counts + n, n, dim, dim};
  work.normed = {type, memory + bytes - Scratch::Piece(n * dim * SizeOf(type)), n, dim, dim};
  return work;
}

// Scores are turned, so that those of a cluster lie together.
void Run::Take(const AttentionRows& rows, int head, int64_t cut, Scratch& scratch) {
  const Work work = WorkOf(rows, head);
  ForTakenPages(0, tokens(), cut, [&](int64_t token, int64_t count) {
    const ScratchFrame frame(scratch);
    RoutedHead::Taken taken{work.normed.Slice(token, count)};
    if (attention_->HasMembers(tokens())) heads_[head].TakeScores(taken, count, scratch);
    heads_[head].TakePage(rows, from_, token, taken, count, scratch);
    float* to = work.scores + token;
    for (const Matrix<float>& scores : taken.scores) {
      for (int64_t cluster = 0; cluster < options().clusters; ++cluster, to += rows.count) {
        for (int64_t i = 0; i < count; ++i) to[i] = scores.row(i)[cluster];
      }
    }
  });
}

void Run::Choose(const AttentionRows& rows, int head, int64_t cut, Scratch& scratch) {
  const Options& o = options();
  const float* scores = WorkOf(rows, head).scores;
  const int64_t end = std::min((cut + 1) * kChosenClusters, o.sets() * o.clusters);
  for (int64_t i = cut * kChosenClusters; i < end; ++i) {
    heads_[head].Choose(static_cast<int>(i / o.clusters), i % o.clusters, scores + i * rows.count, scratch);
  }
}

std::span<const int32_t> Run::Keys(int head, int64_t cluster) const {
  return together() ? std::span<const int32_t>(all_) : heads_[head].Keys(cluster);
}

std::span<const int32_t> Run::Queries(int head, int64_t cluster) const {
  return together() ? std::span<const int32_t>(all_) : heads_[head].Queries(cluster);
}

// A part of a cluster's queries; its results lie beside those of the clusters from `first` on.
void Run::Attend(const AttentionRows& rows, int head, int64_t first, int64_t cut, Scratch& scratch) {
  const Work work = WorkOf(rows, head);
  const int64_t cluster = first + cut / tiles_, place = cut % tiles_ * attention_->ClusterRows();
  const std::span<const int32_t> all = Queries(head, cluster), keys = Keys(head, cluster);
  const auto queries = all.subspan(place, std::min<size_t>(attention_->ClusterRows(), all.size() - place));
  const auto end = options().causal ? std::ranges::upper_bound(keys, queries.back()) : keys.end();
  if (end == keys.begin()) return;
  const auto query = [&](int64_t token) { return work.normed.at(token); };
  const int64_t result = (cluster - first) * std::ssize(all) + place;
  heads_[head].Attend({{queries.begin(), queries.end()}, {keys.begin(), end}}, query,
                      work.results.Slice(result, std::ssize(queries)), scratch);
}

// Of a part of the rows, what they found in some clusters; with the last of these their means are known.
void Run::Merge(const AttentionRows& rows, int head, Range clusters, int64_t cut, Scratch& scratch) {
  const Options& o = options();
  const Work work = WorkOf(rows, head);
  const Range part{cut * kTakenRows, std::min((cut + 1) * kTakenRows, rows.count)};
  const auto mean = [&](int64_t row) { return MeanRow(work.sums.row(row), o.head_dim); };
  for (int64_t row = part.begin; row < part.end && clusters.begin == 0; ++row) {
    mean(row).Clear();
    work.counts[row] = 0;
  }
  for (int64_t cluster = clusters.begin; cluster < clusters.end; ++cluster) {
    const std::span<const int32_t> queries = Queries(head, cluster);
    const int32_t first_seen = o.causal ? Keys(head, cluster).front() : 0;
    const int64_t results = (cluster - clusters.begin) * std::ssize(queries);
    const auto begin = std::ranges::lower_bound(queries, std::max<int64_t>(part.begin, first_seen));
    for (auto query = begin; query != queries.end() && *query < part.end; ++query) {
      mean(*query).Add(work.results.Slice(results + (query - queries.begin()), 1), scratch);
      ++work.counts[*query];
    }
  }
  if (clusters.end < (together() ? 1 : o.clusters)) return;
  const Rows out = heads_[head].OfHead(rows.out);
  for (int64_t row = part.begin; row < part.end; ++row) mean(row).Write(work.counts[row], out.Slice(row, 1));
}

void Run::Archive(StateArchive& archive) {
  int64_t tokens = this->tokens();
  archive.Number(tokens, 0, kMostTokens);
  steps_.Measure(archive);
  for (RoutedHead& head : heads_) head.Archive(archive, tokens);
}

}  // namespace

std::unique_ptr<AttentionRun> NewRoutedRun(const RoutedAttention& attention) {
  return std::make_unique<Run>(attention);
}

}  // namespace heed
