#include "engine/attention/hashed_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "engine/attention/head_steps.h"
#include "engine/base/round.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();
constexpr float kOwn = -1e5f;
constexpr float kEpsilon = 1e-6f;
// Rows whose rounds are one task of each head.
constexpr int64_t kFewRows = kGrid / 2;
// Multiply-adds of a task of a round, so that a long text's tasks are more than the heads.
constexpr double kRoundCost = kTaskCost / 64;
constexpr int kS = HashedAttention::kS, kV = HashedAttention::kV;

// What the steps of one head hand on, of the rows at hand. A row has one place in the order of a round, its
// slot.
struct Work {
  Work(const HashedOptions& options, char* memory, int64_t rows, int64_t first_token);

  std::span<int32_t> Buckets(int64_t round) const {
    return {buckets + round * rows, static_cast<size_t>(rows)};
  }
  std::span<int32_t> Order(int64_t round) const { return {order + round * rows, static_cast<size_t>(rows)}; }
  static int64_t RowBytes(const HashedOptions& o) {
    return (o.head_dim() + 1) * SizeOf(DType::kF32) + 2 * o.rounds() * static_cast<int64_t>(sizeof(int32_t));
  }

  int64_t rows;
  MergedRows merged;
  int32_t* buckets;  // [rounds, rows]
  int32_t* order;    // [rounds, rows] by bucket, those of one bucket in their own order
};

Work::Work(const HashedOptions& options, char* memory, int64_t rows, int64_t first_token) : rows(rows) {
  const int64_t dim = options.head_dim();
  float* results = reinterpret_cast<float*>(memory);
  float* lse = results + rows * dim;
  merged = {{DType::kF32, results, rows, dim, dim}, lse, first_token};
  buckets = reinterpret_cast<int32_t*>(lse + rows);
  order = buckets + rows * options.rounds();
}

// ----------------------------------------------------------------------------------------- who meets whom

// From the first of the slots on, what lies in one chunk, and what the tokens of a chunk read: a token as
// often as it stands there. All tokens are new.
Gathering Sorted(const HashedOptions& o, const Work& work, int64_t round, Range slots) {
  const std::span<const int32_t> order = work.Order(round);
  const int64_t chunk = slots.begin / o.chunk, end = std::min(slots.end, (chunk + 1) * o.chunk);
  Gathering gathering{{order.begin() + slots.begin, order.begin() + end}, {}};
  const int64_t of_round = Quotient(work.rows, o.chunk), all = of_round * o.rounds();
  for (int64_t step = -o.before; step <= o.after; ++step) {
    const int64_t other = ((round * of_round + chunk + step) % all + all) % all;
    const std::span<const int32_t> there = work.Order(other / of_round);
    const int64_t first = other % of_round * o.chunk, last = std::min(first + o.chunk, work.rows);
    gathering.keys.insert(gathering.keys.end(), there.begin() + first, there.begin() + last);
  }
  if (o.causal) std::ranges::sort(gathering.keys);
  return gathering;
}

// Where all read all.
Gathering All(const Work& work, int64_t round, Range slots) {
  const std::span<const int32_t> order = work.Order(round);
  Gathering all{{order.begin() + slots.begin, order.begin() + slots.end}, std::vector<int32_t>(work.rows)};
  std::iota(all.keys.begin(), all.keys.end(), 0);
  return all;
}

// From the first of the slots on, what lies in one chunk of one bucket: a chunk's keys are its own tokens so
// far, in their order, and those of the chunks before it.
Gathering Arrived(const HashedOptions& o, const BucketLists& lists, const Work& work, int64_t round,
                  Range slots) {
  const std::span<const int32_t> buckets = work.Buckets(round), order = work.Order(round);
  const int32_t bucket = buckets[order[slots.begin]];
  const auto alike = std::ranges::equal_range(order, bucket, {}, [&](int32_t row) { return buckets[row]; });
  const int64_t before = slots.begin - (alike.begin() - order.begin());
  const int64_t place = lists.Place(round, bucket, std::ssize(alike) - 1 - before), chunk = place / o.chunk;
  const int64_t count =
      std::min({slots.end - slots.begin, std::ssize(alike) - before, (chunk + 1) * o.chunk - place});
  Gathering gathering;
  for (int64_t slot = slots.begin; slot < slots.begin + count; ++slot)
    gathering.queries.push_back(static_cast<int32_t>(work.merged.first + order[slot]));
  gathering.keys.resize(place + count - std::max<int64_t>(0, chunk - o.before) * o.chunk);
  int32_t token = gathering.queries.back();
  for (auto key = gathering.keys.rbegin(); key != gathering.keys.rend(); ++key) {
    *key = token;
    token = lists.Previous(round, token);
  }
  return gathering;
}

// ------------------------------------------------------------------------------------------- one sequence

class Run : public AttentionRun {
 public:
  explicit Run(const HashedAttention& attention)
      : attention_(&attention), heads_(options().heads(), BucketLists(attention.lists())) {}
  Run(const Run& other) : attention_(other.attention_), heads_(other.heads_) {}
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override;
  int64_t tokens() const override { return heads_.front().pages().tokens(); }

 private:
  // Which keys rows find: all, those that sorting puts beside them, those that arrived before them.
  enum class Meeting { kAll, kSorted, kArrived };
  // Rows, rounds, and in a round slots, some to a task.
  enum Kind { kTake, kSort, kRound };

  const HashedOptions& options() const { return attention_->options(); }
  int64_t rounds() const { return meeting_ == Meeting::kAll ? 1 : options().rounds(); }
  std::vector<HeadSteps::Step> Steps(int64_t rows) const;
  Rows Of(int head, const Rows& all) const {
    return all.Cols(head * options().head_dim(), options().head_dim());
  }
  void Take(const AttentionRows& rows, int head, int64_t cut, Scratch& scratch);
  void Sort(const AttentionRows& rows, int head, int64_t round);
  void AttendRound(const AttentionRows& rows, int head, int64_t round, Range slots, Scratch& scratch);
  Gathering Meet(int head, const Work& work, int64_t round, Range slots) const;

  const HashedAttention* attention_;
  std::vector<BucketLists> heads_;
  // Of the rows at hand.
  int64_t from_ = 0;  // tokens before
  Meeting meeting_ = Meeting::kAll;
  HeadSteps steps_;
};

std::vector<AttentionStage> Run::Begin(const AttentionRows& rows) {
  const HashedOptions& o = options();
  from_ = tokens();
  meeting_ = o.strict || rows.first > 0 ? Meeting::kArrived
             : rows.count <= o.chunk    ? Meeting::kAll
                                        : Meeting::kSorted;
  for (BucketLists& lists : heads_) lists.pages().Grow(rows.count);
  return steps_.Begin({.heads = o.heads(),
                       .at_once = attention_->HeadsAtOnce(rows.count),
                       .few = rows.count <= kFewRows,
                       .bytes = rows.count * Work::RowBytes(o),
                       .steps = Steps(rows.count)});
}

std::vector<HeadSteps::Step> Run::Steps(int64_t rows) const {
  const HashedOptions& o = options();
  const double hash = static_cast<double>(o.hash.outputs() * o.head_dim()), n = static_cast<double>(rows);
  const int64_t slots = std::min(rows, o.task_slots());
  const double row = 2.0 * static_cast<double>(std::min(tokens(), o.keys()) * o.head_dim());
  std::vector<HeadSteps::Step> steps;
  steps.push_back(
      {.kind = kTake,
       .cuts = TakenCuts(from_, tokens()),
       .cost = std::min<double>(n, kTakenRows) * (hash + kMoved * static_cast<double>(o.head_dim()))});
  steps.push_back({.kind = kSort, .cuts = o.rounds(), .cost = kMoved * n});
  for (int64_t round = 0; round < rounds(); ++round)
    steps.push_back({kRound, {round, round + 1}, Quotient(rows, slots), row * static_cast<double>(slots)});
  return steps;
}

void Run::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  steps_.Do(stage, task, [&](const HeadSteps::Step& step, int head, int64_t cut) {
    const int64_t slots = options().task_slots();
    switch (step.kind) {
      case kTake:
        return Take(rows, head, cut, scratch);
      case kSort:
        return Sort(rows, head, cut);
      case kRound:
        return AttendRound(rows, head, step.part.begin,
                           {cut * slots, std::min((cut + 1) * slots, rows.count)}, scratch);
    }
  });
}

void Run::Take(const AttentionRows& rows, int head, int64_t cut, Scratch& scratch) {
  const ScratchFrame frame(scratch);
  const int64_t dim = options().head_dim();
  const Rows s = Of(head, rows.products[kS]), v = Of(head, rows.products[kV]);
  const Rows wide{DType::kF32, scratch.Take<float>(kGrid * dim), kGrid, dim, dim};
  const Work work(options(), steps_.memory(head), rows.count, from_);
  ForTakenPages(from_, tokens(), cut, [&](int64_t token, int64_t count) {
    const int64_t row = token - from_;
    const Matrix<float> part = wide.Slice(0, count).As<float>();
    const TokenPages::Place place = heads_[head].pages().Open(token, count);
    Convert(s.Slice(row, count), wide.Slice(0, count));
    RmsNorm(part, attention_->key_norm(), kEpsilon, place.keys);
    Convert(v.Slice(row, count), place.values);
    attention_->hash().Hash(head, part, work.buckets + row, work.rows, scratch);
    work.merged.Clear(row, count);
  });
}

void Run::Sort(const AttentionRows& rows, int head, int64_t round) {
  const Work work(options(), steps_.memory(head), rows.count, from_);
  SortByBucket(work.Buckets(round), options().hash.buckets(), work.Order(round));
  if (options().causal) heads_[head].Link(round, work.Buckets(round));
}

Gathering Run::Meet(int head, const Work& work, int64_t round, Range slots) const {
  if (meeting_ == Meeting::kAll) return All(work, round, slots);
  if (meeting_ == Meeting::kSorted) return Sorted(options(), work, round, slots);
  return Arrived(options(), heads_[head], work, round, slots);
}

// Rows have one slot each, so that tasks of a round share none; the last round's results are written.
void Run::AttendRound(const AttentionRows& rows, int head, int64_t round, Range slots, Scratch& scratch) {
  const Work work(options(), steps_.memory(head), rows.count, from_);
  const Rows s = Of(head, rows.products[kS]), out = Of(head, rows.out);
  const TokenPages& pages = heads_[head].pages();
  const auto query = [&](int64_t token) { return s.at(token - from_); };
  const auto key = [&](int64_t token) { return pages.Key(token); };
  const auto value = [&](int64_t token) { return pages.Value(token); };
  while (slots.begin < slots.end) {
    const Gathering gathering = Meet(head, work, round, slots);
    attention_->core().AttendAndMerge(gathering, {query, key, value}, work.merged, scratch);
    slots.begin += std::ssize(gathering.queries);
    for (int64_t token : gathering.queries) {
      if (round + 1 < rounds()) break;
      Convert(work.merged.results.Slice(token - from_, 1), out.Slice(token - from_, 1));
    }
  }
}

void Run::Archive(StateArchive& archive) {
  int64_t tokens = this->tokens();
  archive.Number(tokens, 0, kMostTokens);
  steps_.Measure(archive);
  for (BucketLists& lists : heads_) lists.Archive(archive, tokens);
}

}  // namespace

// ------------------------------------------------------------------------------------------- what is shared

int64_t HashedOptions::task_slots() const {
  const double row = 2.0 * static_cast<double>(keys() * head_dim());
  const int64_t slots = std::max<int64_t>(kGrid / 2, static_cast<int64_t>(kRoundCost / row));
  return slots > chunk ? slots / chunk * chunk : slots;
}

HashedAttention::HashedAttention(const AttentionSetting& setting, HashedOptions options,
                                 std::vector<Product> products, const std::vector<float>& rotations)
    : options_(std::move(options)),
      hash_(options_.hash, rotations),
      core_(ActivationType(setting.precision), options_.head_dim(), {.causal = options_.causal, .own = kOwn}),
      key_norm_(options_.head_dim(), 1 / std::sqrt(static_cast<float>(options_.head_dim()))) {
  products_ = std::move(products);
  out_width_ = options_.heads() * options_.head_dim();
  data_dependent_ = true;
  decode_ = !options_.causal  ? DecodeClass::kNone
            : options_.strict ? DecodeClass::kExact
                              : DecodeClass::kApproximate;
  constant_bytes_ = hash_.bytes();
}

std::unique_ptr<AttentionRun> HashedAttention::Start() const { return std::make_unique<Run>(*this); }

BucketLists::Shape HashedAttention::lists() const {
  return {core_.type(), options_.head_dim(), options_.causal ? options_.rounds() : 0,
          options_.hash.buckets()};
}

int HashedAttention::HeadsAtOnce(int64_t rows) const {
  return rows <= kFewRows ? options_.heads() : static_cast<int>(Quotient(options_.heads(), 2));
}

int64_t HashedAttention::StateBytes(int64_t tokens) const {
  const int64_t few = std::min(tokens, kFewRows);
  const int64_t worked = std::max(HeadsAtOnce(few) * few, HeadsAtOnce(tokens) * tokens);
  return static_cast<int64_t>(sizeof(int64_t)) + worked * Work::RowBytes(options_) +
         options_.heads() * BucketLists::Bytes(lists(), tokens);
}

double HashedAttention::Cost(int64_t rows, int64_t tokens) const {
  const HashedOptions& o = options_;
  const double keys = static_cast<double>(std::min(tokens, o.keys()));
  const double hash = static_cast<double>(o.hash.outputs()), rounds = static_cast<double>(o.rounds());
  return static_cast<double>(rows) * (hash + 2 * rounds * keys) * static_cast<double>(out_width_);
}

int64_t HashedAttention::ScratchBytes() const {
  const int64_t taking =
      Scratch::Piece(kGrid * options_.head_dim() * SizeOf(DType::kF32)) + hash_.ScratchBytes();
  return std::max(taking, core_.ScratchBytes(std::min(options_.chunk, options_.task_slots())));
}

}  // namespace heed
