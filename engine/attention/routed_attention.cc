#include "engine/attention/routed_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "engine/attention/cluster_members.h"
#include "engine/attention/token_pages.h"
#include "engine/base/round.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

using Options = RoutedOptions;

constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();
constexpr float kEpsilon = 1e-6f;
// Rows whose stages are one task of each head.
constexpr int64_t kFewRows = kGrid / 2;
// Clusters whose members one task chooses.
constexpr int64_t kChosenClusters = 16;
// Multiply-adds of a task that attends in a cluster.
constexpr double kClusterCost = kTaskCost / 64;
constexpr int kQ = RoutedAttention::kQ, kV = RoutedAttention::kV, kK = RoutedAttention::kK;

// ------------------------------------------------------------------------------------------- one sequence

// The mean of what a row finds in its clusters, in their order.
class MeanRow {
 public:
  MeanRow(float* sum, int64_t width) : sum_{sum, 1, width, width} {}
  void Clear() { std::fill_n(sum_.data, sum_.cols, 0.0f); }
  void Add(const Rows& result, Scratch& scratch) const {
    const ScratchFrame frame(scratch);
    const Rows wide{DType::kF32, scratch.Take<float>(sum_.cols), 1, sum_.cols, sum_.cols};
    Convert(result, wide);
    heed::Add(wide.As<float>(), sum_);
  }
  void Write(int64_t clusters, const Rows& out) const {
    Scale(1 / static_cast<float>(std::max<int64_t>(clusters, 1)), sum_);
    Convert({DType::kF32, sum_.data, 1, sum_.cols, sum_.cols}, out);
  }

 private:
  Matrix<float> sum_;
};

class Run : public AttentionRun {
 public:
  explicit Run(const RoutedAttention& attention);
  Run(const Run& other) : attention_(other.attention_), heads_(other.heads_) {}
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override;
  int64_t tokens() const override { return heads_.front().pages.tokens(); }

 private:
  // What a head keeps.
  struct Head {
    TokenPages pages;                     // normed keys, and values
    std::vector<ClusterMembers> members;  // of keys; then, if they are not shared, of queries
  };
  // What one head does, step by step.
  struct Step {
    // Rows that come whole: taken in, members chosen, some clusters at a time attended and added to the rows'
    // means. Rows that follow others one by one: all at once.
    enum Kind { kTake, kChoose, kAttend, kMerge, kFollow } kind;
    Range part{};      // of the clusters, or of the tokens that follow
    int64_t cuts = 1;  // tasks of a head
    double cost = 0;   // of one
  };
  // What the steps hand on, of the rows at hand. Results lie where the scores lay.
  struct Work {
    float* scores;         // [sets, clusters, rows]
    Matrix<float> sums;    // [rows, head_dim]
    int32_t* counts;       // [rows], clusters in the sum
    Rows results, normed;  // [rows, head_dim] of clusters, [rows, head_dim] queries that are not the keys
  };
  // Where a page's rows go beside the pages.
  struct Taken {
    Rows queries;                         // normed, if they are not the keys
    std::vector<Matrix<float>> scores{};  // by set, or none
  };

  const Options& options() const { return attention_->options(); }
  void PlanWhole(const AttentionRows& rows);
  void PlanFollowing(const AttentionRows& rows);
  std::vector<AttentionStage> Stages() const;
  void Release();  // what steps hand on
  void DoStep(const AttentionRows& rows, const Step& step, int head, int64_t cut, Scratch& scratch);

  Work WorkOf(const AttentionRows& rows, int head) const;
  // A head's columns.
  Rows Of(int head, const Rows& rows) const {
    return rows.Cols(head * options().head_dim, options().head_dim);
  }
  void TakeScores(Taken& taken, int64_t count, Scratch& scratch) const;
  void TakePage(const AttentionRows& rows, int head, int64_t token, const Taken& taken, int64_t count,
                Scratch& scratch);
  void Take(const AttentionRows& rows, int head, int64_t cut, Scratch& scratch);
  void Choose(const AttentionRows& rows, int head, int64_t cut, Scratch& scratch);
  void Attend(const AttentionRows& rows, int head, int64_t first, int64_t cut, Scratch& scratch);
  void Merge(const AttentionRows& rows, int head, Range clusters, int64_t cut, Scratch& scratch);
  void Follow(const AttentionRows& rows, int head, Range tokens, Scratch& scratch);
  void FollowTogether(int head, Range tokens, const Taken& taken, const Rows& out, Scratch& scratch);
  std::vector<int32_t> Join(int head, int64_t token, const Taken& taken, int64_t row);
  void FollowAlone(int head, int64_t token, const std::vector<int32_t>& clusters, const void* given,
                   const Rows& out, Scratch& scratch);
  template <typename Query>
  void AttendFrom(int head, const Gathering& gathering, const Query& query, const Rows& results,
                  Scratch& scratch) const;
  // Of rows that come whole, which may all be one cluster.
  bool together() const { return tokens() <= options().window; }
  std::span<const int32_t> Keys(int head, int64_t cluster) const;
  std::span<const int32_t> Queries(int head, int64_t cluster) const;

  const RoutedAttention* attention_;
  std::vector<Head> heads_;
  // Of the rows at hand.
  int64_t from_ = 0;  // tokens before
  std::vector<Step> plan_;
  int at_once_ = 1;           // heads
  bool few_ = false;          // all steps of a head are one task
  int64_t tiles_ = 1;         // of a cluster
  std::vector<int32_t> all_;  // tokens, if they are one cluster
  Buffer work_;               // of at_once_ heads
};

Run::Run(const RoutedAttention& attention)
    : attention_(&attention),
      heads_(options().heads,
             {TokenPages(attention.core().type(), options().head_dim, 0),
              std::vector(options().sets(), ClusterMembers(options().clusters, options().window))}) {}

std::vector<AttentionStage> Run::Begin(const AttentionRows& rows) {
  const Options& o = options();
  from_ = tokens();
  for (Head& head : heads_) {
    head.pages.Grow(rows.count);
    for (ClusterMembers& members : head.members) {
      if (attention_->HasMembers(head.pages.tokens())) members.Grow(head.pages.tokens());
    }
  }
  plan_.clear();
  if (o.strict || rows.first > 0 || (o.causal && rows.count <= std::min(kFewRows, o.window))) {
    PlanFollowing(rows);
  } else {
    PlanWhole(rows);
  }
  return Stages();
}

// As many clusters at a time as the rows have room for.
void Run::PlanWhole(const AttentionRows& rows) {
  const Options& o = options();
  const int64_t n = rows.count, clusters = together() ? 1 : o.clusters, members = std::min(n, o.window);
  const double taken = static_cast<double>(std::min(n, kTakenRows)), width = static_cast<double>(o.head_dim);
  tiles_ = Quotient(members, attention_->ClusterRows());
  plan_.push_back({.kind = Step::kTake,
                   .cuts = TakenCuts(0, n),
                   .cost = taken * (o.choosing_cost() + 2 * kMoved * width)});
  if (attention_->HasMembers(n)) {
    plan_.push_back({.kind = Step::kChoose,
                     .cuts = Quotient(o.sets() * o.clusters, kChosenClusters),
                     .cost = kMoved * static_cast<double>(n * kChosenClusters)});
  }
  const double attending = o.pair_cost() * static_cast<double>(members) *
                           static_cast<double>(std::min(members, attention_->ClusterRows()));
  const int64_t at_a_time = std::clamp<int64_t>(n / o.window, 1, clusters);
  for (int64_t first = 0; first < clusters; first += at_a_time) {
    const Range part{first, std::min(first + at_a_time, clusters)};
    plan_.push_back({Step::kAttend, part, part.size() * tiles_, attending});
    plan_.push_back({Step::kMerge, part, Quotient(n, kTakenRows), 2 * kMoved * taken * width});
  }
  all_.resize(together() ? n : 0);
  std::iota(all_.begin(), all_.end(), 0);
  few_ = n <= kFewRows;
  at_once_ = attention_->HeadsAtOnce(n);
  const auto bytes = static_cast<size_t>(at_once_ * attention_->WorkBytes(n));
  if (work_.size() < bytes) {
    work_ = Buffer();
    work_ = Buffer::Lasting(bytes);
  }
}

// So many rows to a task that it is not too long if each of them is a member everywhere.
void Run::PlanFollowing(const AttentionRows& rows) {
  const Options& o = options();
  const double keys = static_cast<double>(std::min(tokens(), o.window)),
               clusters = together() ? 1.0 : static_cast<double>(o.clusters),
               row_cost = o.choosing_cost() + clusters * keys * o.pair_cost();
  int64_t unit = kGrid;
  while (unit > 1 && static_cast<double>(unit) * row_cost > kTaskCost) unit /= 2;
  for (int64_t token = from_, end; token < from_ + rows.count; token = end) {
    end = std::min(RoundDown(token, unit) + unit, from_ + rows.count);
    plan_.push_back({Step::kFollow, {token, end}, 1, row_cost * static_cast<double>(end - token)});
  }
  few_ = false;
  at_once_ = o.heads;
  Release();
}

void Run::Release() {
  work_ = Buffer();
  all_ = {};
}

std::vector<AttentionStage> Run::Stages() const {
  const int heads = options().heads;
  std::vector<AttentionStage> stages;
  if (few_) {
    double cost = 0;
    for (const Step& step : plan_) cost += static_cast<double>(step.cuts) * step.cost;
    return {{heads, cost}};
  }
  for (int first = 0; first < heads; first += at_once_) {
    for (const Step& step : plan_)
      stages.push_back({std::min(at_once_, heads - first) * step.cuts, step.cost});
  }
  if (!work_.empty()) stages.push_back({1, 0});
  return stages;
}

void Run::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  if (few_) {
    for (const Step& step : plan_) {
      for (int64_t cut = 0; cut < step.cuts; ++cut) DoStep(rows, step, static_cast<int>(task), cut, scratch);
    }
    return;
  }
  const int64_t group = stage / std::ssize(plan_);
  const Step& step = plan_[stage % std::ssize(plan_)];
  if (group * at_once_ >= options().heads) return Release();
  DoStep(rows, step, static_cast<int>(group * at_once_ + task / step.cuts), task % step.cuts, scratch);
}

void Run::DoStep(const AttentionRows& rows, const Step& step, int head, int64_t cut, Scratch& scratch) {
  switch (step.kind) {
    case Step::kTake:
      return Take(rows, head, cut, scratch);
    case Step::kChoose:
      return Choose(rows, head, cut, scratch);
    case Step::kAttend:
      return Attend(rows, head, step.part.begin, cut, scratch);
    case Step::kMerge:
      return Merge(rows, head, step.part, cut, scratch);
    case Step::kFollow:
      return Follow(rows, head, step.part, scratch);
  }
}

// ------------------------------------------------------------------------------------- taking rows in

Run::Work Run::WorkOf(const AttentionRows& rows, int head) const {
  const Options& o = options();
  const int64_t n = rows.count, dim = o.head_dim, bytes = attention_->WorkBytes(n);
  char* memory = const_cast<Buffer&>(work_).as<char>() + head % at_once_ * bytes;
  const DType type = attention_->core().type();
  Work work;
  work.scores = reinterpret_cast<float*>(memory);
  work.sums = {work.scores, n, dim, dim};
  work.counts = reinterpret_cast<int32_t*>(work.scores + n * dim);
  work.results = {type, work.counts + n, n, dim, dim};
  work.normed = {type, memory + bytes - Scratch::Piece(n * dim * SizeOf(type)), n, dim, dim};
  return work;
}

// Memory for those of so many rows.
void Run::TakeScores(Taken& taken, int64_t count, Scratch& scratch) const {
  const int64_t clusters = options().clusters;
  for (int set = 0; set < options().sets(); ++set)
    taken.scores.push_back({scratch.Take<float>(kGrid * clusters), count, clusters, clusters});
}

// So many rows from `token` on, of one page.
void Run::TakePage(const AttentionRows& rows, int head, int64_t token, const Taken& taken, int64_t count,
                   Scratch& scratch) {
  const ScratchFrame frame(scratch);
  const Options& o = options();
  const int64_t row = token - from_;
  const TokenPages::Place place = heads_[head].pages.Open(token, count);
  const Matrix<float> normed{scratch.Take<float>(kGrid * o.head_dim), count, o.head_dim, o.head_dim};
  for (int set = 0; set < o.sets(); ++set) {
    const Rows given = Of(head, rows.products[set == 0 && !o.shared ? kK : kQ]).Slice(row, count);
    attention_->Norm(given, normed, scratch);
    Convert({DType::kF32, normed.data, count, o.head_dim, o.head_dim}, set == 0 ? place.keys : taken.queries);
    if (!taken.scores.empty()) attention_->Score(head, normed, taken.scores[set], scratch);
  }
  Convert(Of(head, rows.products[kV]).Slice(row, count), place.values);
}

// Scores are turned, so that those of a cluster lie together.
void Run::Take(const AttentionRows& rows, int head, int64_t cut, Scratch& scratch) {
  const Options& o = options();
  const Work work = WorkOf(rows, head);
  ForTakenPages(0, tokens(), cut, [&](int64_t token, int64_t count) {
    const ScratchFrame frame(scratch);
    Taken taken{work.normed.Slice(token, count)};
    if (attention_->HasMembers(tokens())) TakeScores(taken, count, scratch);
    TakePage(rows, head, token, taken, count, scratch);
    float* to = work.scores + token;
    for (const Matrix<float>& scores : taken.scores) {
      for (int64_t cluster = 0; cluster < o.clusters; ++cluster, to += rows.count) {
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
    heads_[head].members[i / o.clusters].Choose(i % o.clusters, scores + i * rows.count, rows.count, scratch);
  }
}

// --------------------------------------------------------------------------------------- attending

std::span<const int32_t> Run::Keys(int head, int64_t cluster) const {
  return together() ? std::span<const int32_t>(all_) : heads_[head].members.front().Of(cluster, tokens());
}

std::span<const int32_t> Run::Queries(int head, int64_t cluster) const {
  return together() ? std::span<const int32_t>(all_) : heads_[head].members.back().Of(cluster, tokens());
}

template <typename Query>
void Run::AttendFrom(int head, const Gathering& gathering, const Query& query, const Rows& results,
                     Scratch& scratch) const {
  const TokenPages& pages = heads_[head].pages;
  const auto key = [&](int64_t token) { return pages.Key(token); };
  const auto value = [&](int64_t token) { return pages.Value(token); };
  const auto shared = [&](int64_t token) { return pages.Key(token); };
  const GatheredHead gathered =
      options().shared ? GatheredHead{shared, key, value} : GatheredHead{query, key, value};
  attention_->core().Attend(gathering, gathered, {results}, scratch);
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
  AttendFrom(head, {{queries.begin(), queries.end()}, {keys.begin(), end}}, query,
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
  const Rows out = Of(head, rows.out);
  for (int64_t row = part.begin; row < part.end; ++row) mean(row).Write(work.counts[row], out.Slice(row, 1));
}

// Rows of one page. Until there are more tokens than the window, each is a member everywhere and sees all
// before it; from then on each finds its clusters by itself.
void Run::Follow(const AttentionRows& rows, int head, Range tokens, Scratch& scratch) {
  const ScratchFrame frame(scratch);
  const Options& o = options();
  const DType type = attention_->core().type();
  const int64_t count = tokens.size();
  Taken taken{{type, scratch.Take<char>(kGrid * o.head_dim * SizeOf(type)), count, o.head_dim, o.head_dim}};
  TakeScores(taken, count, scratch);
  TakePage(rows, head, tokens.begin, taken, count, scratch);
  const Rows out = Of(head, rows.out).Slice(tokens.begin - from_, count);
  const int64_t alone = std::clamp(o.window, tokens.begin, tokens.end);
  if (alone > tokens.begin) FollowTogether(head, {tokens.begin, alone}, taken, out, scratch);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t token = tokens.begin + row;
    const std::vector<int32_t> clusters = Join(head, token, taken, row);
    if (token >= alone) FollowAlone(head, token, clusters, taken.queries.at(row), out.Slice(row, 1), scratch);
  }
}

void Run::FollowTogether(int head, Range tokens, const Taken& taken, const Rows& out, Scratch& scratch) {
  Gathering all{std::vector<int32_t>(tokens.size()), std::vector<int32_t>(tokens.end)};
  std::iota(all.queries.begin(), all.queries.end(), static_cast<int32_t>(tokens.begin));
  std::iota(all.keys.begin(), all.keys.end(), 0);
  const auto query = [&](int64_t token) { return taken.queries.at(token - tokens.begin); };
  AttendFrom(head, all, query, out.Slice(0, tokens.size()), scratch);
}

// The next token, a row of those taken: the clusters that it is a query of.
std::vector<int32_t> Run::Join(int head, int64_t token, const Taken& taken, int64_t row) {
  std::vector<int32_t> clusters;
  for (int32_t cluster = 0; cluster < options().clusters; ++cluster) {
    bool member = false;  // as the last set has it: the queries'
    for (int set = 0; set < options().sets(); ++set)
      member = heads_[head].members[set].Add(cluster, token, taken.scores[set].row(row)[cluster]);
    if (member) clusters.push_back(cluster);
  }
  return clusters;
}

void Run::FollowAlone(int head, int64_t token, const std::vector<int32_t>& clusters, const void* given,
                      const Rows& out, Scratch& scratch) {
  const ScratchFrame frame(scratch);
  const int64_t dim = options().head_dim;
  const Rows result{out.dtype, scratch.Take<char>(dim * SizeOf(out.dtype)), 1, dim, dim};
  MeanRow mean(scratch.Take<float>(dim), dim);
  mean.Clear();
  const auto query = [&](int64_t) { return given; };
  for (const int32_t cluster : clusters) {
    const std::span<const int32_t> keys = heads_[head].members.front().Of(cluster, token + 1);
    AttendFrom(head, {{static_cast<int32_t>(token)}, {keys.begin(), keys.end()}}, query, result, scratch);
    mean.Add(result, scratch);
  }
  mean.Write(std::ssize(clusters), out);
}

void Run::Archive(StateArchive& archive) {
  int64_t tokens = this->tokens();
  archive.Number(tokens, 0, kMostTokens);
  if (archive.measuring()) archive.Bytes(work_, static_cast<int64_t>(work_.size()));
  for (Head& head : heads_) {
    head.pages.Archive(archive, tokens);
    for (ClusterMembers& members : head.members) {
      if (archive.status().ok() && attention_->HasMembers(tokens)) members.Archive(archive, tokens);
    }
  }
}

}  // namespace

// ------------------------------------------------------------------------------------------- what is shared

RoutedAttention::RoutedAttention(const AttentionSetting& setting, const Options& options,
                                 std::vector<Product> products, const std::vector<float>& centroids)
    : options_(options),
      core_(ActivationType(setting.precision), options_.head_dim,
            {.scale = options_.scale, .causal = options_.causal}),
      ones_(options_.head_dim, 1.0f) {
  products_ = std::move(products);
  out_width_ = options_.heads * options_.head_dim;
  data_dependent_ = true;
  decode_ = !options_.causal  ? DecodeClass::kNone
            : options_.strict ? DecodeClass::kExact
                              : DecodeClass::kApproximate;
  const int64_t clusters = options_.clusters, dim = options_.head_dim;
  for (int head = 0; head < options_.heads; ++head) {
    const Tensor of_head{DType::kF32, {clusters, dim}, centroids.data() + head * clusters * dim};
    centroids_.push_back(PackedWeights::Pack({{of_head, {}}}, Precision::kF32));
    constant_bytes_ += centroids_.back().bytes();
  }
}

std::unique_ptr<AttentionRun> RoutedAttention::Start() const { return std::make_unique<Run>(*this); }

void RoutedAttention::Norm(const Rows& rows, Matrix<float> normed, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const Rows wide{DType::kF32, scratch.Take<float>(rows.rows * rows.cols), rows.rows, rows.cols, rows.cols};
  Convert(rows, wide);
  LayerNorm(wide.As<float>(), ones_.data(), nullptr, kEpsilon,
            {DType::kF32, normed.data, normed.rows, normed.cols, normed.stride});
}

void RoutedAttention::Score(int head, Matrix<float> normed, Matrix<float> scores, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const auto rows = [](Matrix<float> m) { return Rows{DType::kF32, m.data, m.rows, m.cols, m.stride}; };
  Team alone;
  Gemm(alone, {rows(normed)}, centroids_[head], {.out = rows(scores)}, scratch);
  for (int64_t i = 0; i < scores.rows * scores.cols; ++i) {
    float& score = scores.data[i];
    if (std::isnan(score)) score = -std::numeric_limits<float>::infinity();
  }
}

int64_t RoutedAttention::ClusterRows() const {
  const double row = options_.pair_cost() * static_cast<double>(options_.window);
  return std::clamp<int64_t>(static_cast<int64_t>(kClusterCost / row), kGrid / 2, 4 * kGrid);
}

// Rows that follow others hand nothing on.
int64_t RoutedAttention::WorkBytes(int64_t rows) const {
  const int64_t dim = options_.head_dim, vector = dim * SizeOf(core_.type()), number = SizeOf(DType::kF32);
  const int64_t scores = options_.sets() * options_.clusters * number, sums = (dim + 1) * number + vector;
  if (options_.strict) return 0;
  return Scratch::Piece(rows * std::max(scores, sums)) +
         (options_.shared ? 0 : Scratch::Piece(rows * vector));
}

int RoutedAttention::HeadsAtOnce(int64_t rows) const {
  if (rows <= kFewRows) return options_.heads;
  const int64_t kept = options_.heads * 2 * options_.head_dim * SizeOf(core_.type()) * kGrid;
  const int64_t worked = std::max<int64_t>(1, WorkBytes(kGrid));
  return static_cast<int>(std::clamp<int64_t>(kept / worked, 1, Quotient(options_.heads, 2)));
}

int64_t RoutedAttention::StateBytes(int64_t tokens) const {
  const Options& o = options_;
  const int64_t members =
      HasMembers(tokens) ? o.sets() * ClusterMembers::Bytes(o.clusters, o.window, tokens) : 0;
  const int64_t few = std::min(tokens, kFewRows);
  const int64_t worked = std::max(HeadsAtOnce(few) * WorkBytes(few), HeadsAtOnce(tokens) * WorkBytes(tokens));
  return sizeof(int64_t) + worked +
         o.heads * (TokenPages::Bytes(core_.type(), o.head_dim, 0, tokens) + members);
}

// A prompt's; of strict_causal, where tokens come in no order, a query of the t-th row is member of each
// cluster with window / t.
double RoutedAttention::Cost(int64_t rows, int64_t tokens) const {
  const Options& o = options_;
  const double window = static_cast<double>(o.window), clusters = static_cast<double>(o.clusters);
  const auto square = [&](double n) { return o.causal ? n * (n + 1) / 2 : n * n; };
  const auto until = [&](int64_t tokens) {
    const double n = static_cast<double>(tokens);
    const double pairs = n <= window ? square(n)
                         : o.strict  ? square(window) + clusters * window * window * std::log(n / window)
                                     : clusters * square(window);
    return static_cast<double>(o.heads) * (n * o.choosing_cost() + pairs * o.pair_cost());
  };
  if (o.causal) return until(tokens) - until(tokens - rows);
  return until(tokens) * static_cast<double>(rows) / static_cast<double>(tokens);
}

int64_t RoutedAttention::ScratchBytes() const {
  const Options& o = options_;
  const auto floats = [](int64_t n) { return Scratch::Piece(n * SizeOf(DType::kF32)); };
  const int64_t page = floats(kGrid * o.head_dim);
  const int64_t taken = page + o.sets() * floats(kGrid * o.clusters);
  const int64_t taking = 2 * page + GemmScratchBytes();
  const int64_t attending = core_.ScratchBytes(std::max(ClusterRows(), kGrid)) + 3 * floats(o.head_dim);
  return std::max(taken + std::max(taking, attending), ClusterMembers::ScratchBytes(o.window));
}

}  // namespace heed
