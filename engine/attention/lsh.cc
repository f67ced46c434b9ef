// "lsh": attention of the Reformer (Kitaev et al. 2020): a token reads the tokens that a hash puts beside it.
// s = x Wq is query and, at unit length, key, k = s / sqrt(mean(s^2) + 1e-6) / sqrt(head_dim):
//   score(i, j) = s_i . k_j
//   hash      bucket = argmax [s R; -s R], a round for each of num_hashes rotations R
//   sort      a round puts the tokens in order of (bucket, position), in chunks of chunk_length; those of a
//             chunk read their chunk, chunks_before before it and chunks_after after it. The rounds are one
//             circular list: the first chunk of a round has the last of the round before it as neighbour
//   merge     sum over rounds of softmax(z) o: o a round's result, z the log-sum-exp of its scores
// A token's score with itself is -1e5: it counts only where there is nothing else. At most chunk_length
// tokens need no hash: all read all.
// Options: chunk_length; num_hashes; num_buckets (even, or a list of even factors: an argmax each);
//   chunks_before (1); chunks_after (0; encoder only); strict_causal (false; decoder only).
// Tensors: q, v; rotations [heads, head_dim, num_hashes, sum of the factors / 2].
//
// In a decoder the sorting lets later tokens decide which earlier ones meet, though never what they say. A
// step cannot know them: it reads the tokens of its bucket in order of arrival, cut into chunks, its own
// chunk and chunks_before before it. strict_causal makes that the definition of the whole, and decoding
// exact.
//
// Buckets are decided in f32 from s as the activation type has rounded it (its product is not rounded to
// int8): another precision may put a token elsewhere, other company never does.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/attention/gathered.h"
#include "engine/attention/token_pages.h"
#include "engine/base/round.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostChunk = 1 << 12, kMostChunks = 64, kMostRounds = 64, kMostBuckets = 1 << 20;
constexpr float kOwn = -1e5f;
constexpr float kEpsilon = 1e-6f;
// Rows whose rounds are one task of each head.
constexpr int64_t kFewRows = kGrid / 2;
// Multiply-adds of a task of a round, so that a long text's tasks are more than the heads.
constexpr double kRoundCost = kTaskCost / 64;
enum { kS, kV };  // the products

struct Options {
  int heads = 1;
  int64_t head_dim = 0;
  bool causal = false, strict = false;
  int64_t chunk = 0, before = 1, after = 0;
  int64_t rounds = 0;
  std::vector<int64_t> factors;

  int64_t buckets() const {
    return std::accumulate(factors.begin(), factors.end(), int64_t{1}, std::multiplies<>());
  }
  int64_t directions() const { return std::accumulate(factors.begin(), factors.end(), int64_t{0}) / 2; }
  int64_t outputs() const { return rounds * directions(); }
  int64_t keys() const { return (1 + before + after) * chunk; }  // that a chunk reads
  // Of a round, what one task attends from: whole chunks, or a part of one.
  int64_t task_slots() const {
    const double row = 2.0 * static_cast<double>(keys() * head_dim);
    const int64_t slots = std::max<int64_t>(kGrid / 2, static_cast<int64_t>(kRoundCost / row));
    return slots > chunk ? slots / chunk * chunk : slots;
  }
};

class LshAttention : public Attention {
 public:
  LshAttention(const AttentionSetting& setting, Options options, std::vector<Product> products,
               const std::vector<float>& rotations);
  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override;
  double Cost(int64_t rows, int64_t tokens) const override;
  int64_t ScratchBytes() const override;

  const Options& options() const { return options_; }
  const GatheredCore& core() const { return core_; }
  const float* key_norm() const { return key_norm_.data(); }
  // The buckets of rows s, at most kGrid and with memory for so many: those of a round are `pitch` apart from
  // the next round's.
  void Hash(int head, Matrix<float> s, int32_t* buckets, int64_t pitch, Scratch& scratch) const;

 private:
  Options options_;
  GatheredCore core_;
  std::vector<float> key_norm_;           // [head_dim] 1 / sqrt(head_dim)
  std::vector<PackedWeights> rotations_;  // of a head: rounds * directions outputs
};

// ------------------------------------------------------------------------------- what a head keeps

// One head's keys and values, and in a decoder for each round and bucket the list of its tokens, newest
// first.
class Memory {
 public:
  explicit Memory(const LshAttention& attention);

  TokenPages& pages() { return pages_; }
  const TokenPages& pages() const { return pages_; }
  // The newest tokens, of which these are the buckets in a round.
  void Link(int64_t round, std::span<const int32_t> buckets);
  // In a round: the token before this one in its bucket; how many came before a bucket's newest token but
  // `ago`.
  int32_t Previous(int64_t round, int64_t token) const { return Links(token)[round]; }
  int32_t Place(int64_t round, int32_t bucket, int64_t ago) const {
    return static_cast<int32_t>(List(round, bucket)->count - 1 - ago);
  }
  void Archive(StateArchive& archive, int64_t tokens);

  static int64_t LinkBytes(const Options& options) {  // of a token
    return options.causal ? options.rounds * sizeof(int32_t) : 0;
  }
  static int64_t ListBytes(const Options& options) {
    return options.causal ? options.rounds * options.buckets() * sizeof(BucketList) : 0;
  }

 private:
  struct BucketList {
    int32_t newest = -1;
    int32_t count = 0;
  };
  int32_t* Links(int64_t token) const { return static_cast<int32_t*>(pages_.Extra(token)); }
  BucketList* List(int64_t round, int32_t bucket) const {
    return const_cast<Buffer&>(lists_).as<BucketList>() + round * options().buckets() + bucket;
  }
  const Options& options() const { return attention_->options(); }
  bool Consistent() const;

  const LshAttention* attention_;
  TokenPages pages_;  // with links
  Buffer lists_;      // [rounds, buckets]
};

Memory::Memory(const LshAttention& attention)
    : attention_(&attention),
      pages_(attention.core().type(), options().head_dim, LinkBytes(options())),
      lists_(ListBytes(options())) {
  std::fill_n(lists_.as<BucketList>(), lists_.size() / sizeof(BucketList), BucketList());
}

void Memory::Link(int64_t round, std::span<const int32_t> buckets) {
  int32_t token = static_cast<int32_t>(pages_.tokens() - std::ssize(buckets));
  for (const int32_t bucket : buckets) {
    BucketList* list = List(round, bucket);
    Links(token)[round] = std::exchange(list->newest, token);
    ++list->count;
    ++token;
  }
}

void Memory::Archive(StateArchive& archive, int64_t tokens) {
  pages_.Archive(archive, tokens);
  archive.Bytes(lists_, lists_.size());
  if (archive.restoring() && archive.status().ok() && !Consistent())
    archive.Fail(Invalid("the state's lists of tokens are broken"));
}

// Every list is as long as it says, and each token is in one list a round.
bool Memory::Consistent() const {
  for (int64_t round = 0; round < options().rounds && options().causal; ++round) {
    int64_t sum = 0;
    for (int32_t bucket = 0; bucket < options().buckets(); ++bucket) {
      const BucketList list = *List(round, bucket);
      if (list.count < 0 || (sum += list.count) > pages_.tokens()) return false;
      int64_t token = list.newest, above = pages_.tokens();
      for (int32_t i = 0; i < list.count; ++i) {
        if (token < 0 || token >= above) return false;
        above = std::exchange(token, Previous(round, token));
      }
      if (token != -1) return false;
    }
    if (sum != pages_.tokens()) return false;
  }
  return true;
}

// ------------------------------------------------------------------------------------------- one sequence

// What the stages of one head hand on, of the rows at hand. A row has one place in the order of a round, its
// slot.
struct Work {
  MergedRows merged;
  int32_t* buckets = nullptr;  // [rounds, rows]
  int32_t* order = nullptr;    // [rounds, rows] by bucket, those of one bucket in their own order
  int64_t rows = 0;

  std::span<int32_t> Buckets(int64_t round) const {
    return {buckets + round * rows, static_cast<size_t>(rows)};
  }
  std::span<int32_t> Order(int64_t round) const { return {order + round * rows, static_cast<size_t>(rows)}; }
  static int64_t RowBytes(const Options& o) {
    return (o.head_dim + 1) * SizeOf(DType::kF32) + 2 * o.rounds * static_cast<int64_t>(sizeof(int32_t));
  }
};

// Half of the heads at a time, so that the work of many rows is less than what remains of them.
int64_t HeadsAtOnce(const Options& o, int64_t rows) {
  return rows <= kFewRows ? o.heads : Quotient(o.heads, 2);
}

void SortByBucket(std::span<const int32_t> buckets, int64_t limit, std::span<int32_t> order) {
  if (std::ssize(buckets) < limit) {
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int32_t row) { return std::pair(buckets[row], row); });
    return;
  }
  std::vector<int32_t> place(limit + 1);
  for (int32_t bucket : buckets) ++place[bucket + 1];
  std::partial_sum(place.begin(), place.end(), place.begin());
  for (size_t i = 0; i < buckets.size(); ++i) order[place[buckets[i]]++] = static_cast<int32_t>(i);
}

class Run : public AttentionRun {
 public:
  explicit Run(const LshAttention& attention)
      : attention_(&attention), heads_(attention.options().heads, Memory(attention)) {}
  Run(const Run& other) : attention_(other.attention_), heads_(other.heads_) {}
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override;
  int64_t tokens() const override { return heads_.front().pages().tokens(); }

 private:
  // Which keys rows find: all, those that sorting puts beside them, those that arrived before them.
  enum class Meeting { kAll, kSorted, kArrived };
  // kFew: all at once, for rows that are not worth several stages.
  struct Stage {
    enum Kind { kFew, kTake, kSort, kRound, kRelease } kind;
    int first_head = 0;
    int64_t round = 0;
    int64_t cuts = 1;  // tasks of a head
  };

  const Options& options() const { return attention_->options(); }
  int64_t rounds() const { return meeting_ == Meeting::kAll ? 1 : options().rounds; }
  void Add(const Stage& stage, int heads, double cost, std::vector<AttentionStage>& stages);
  void AddHeads(const AttentionRows& rows, int first, int count, std::vector<AttentionStage>& stages);
  double RowCost() const;  // of a round
  Work WorkOf(const AttentionRows& rows, int head);
  void Take(const AttentionRows& rows, int head, int64_t cut, Scratch& scratch);
  void Sort(const AttentionRows& rows, int head);
  void AttendRound(const AttentionRows& rows, int head, int64_t round, Range slots, Scratch& scratch);
  Gathering Sorted(const Work& work, int64_t round, Range slots) const;
  Gathering Arrived(const Memory& memory, const Work& work, int64_t first, int64_t round, Range slots) const;

  const LshAttention* attention_;
  std::vector<Memory> heads_;
  // Of the rows at hand.
  int64_t from_ = 0;  // tokens before
  Meeting meeting_ = Meeting::kAll;
  std::vector<Stage> stages_;
  Buffer work_;  // of HeadsAtOnce()
};

std::vector<AttentionStage> Run::Begin(const AttentionRows& rows) {
  const Options& o = options();
  from_ = tokens();
  meeting_ = o.strict || rows.first > 0 ? Meeting::kArrived
             : rows.count <= o.chunk    ? Meeting::kAll
                                        : Meeting::kSorted;
  for (Memory& memory : heads_) memory.pages().Grow(rows.count);
  const int at_once = static_cast<int>(HeadsAtOnce(o, rows.count));
  const int64_t bytes = at_once * rows.count * Work::RowBytes(o);
  if (static_cast<int64_t>(work_.size()) < bytes) {
    work_ = Buffer();
    work_ = Buffer::Lasting(bytes);
  }
  stages_.clear();
  std::vector<AttentionStage> stages;
  if (rows.count <= kFewRows) {
    Add({Stage::kFew}, o.heads, RowCost() * static_cast<double>(rounds() * rows.count), stages);
    return stages;
  }
  for (int first = 0; first < o.heads; first += at_once)
    AddHeads(rows, first, std::min(at_once, o.heads - first), stages);
  Add({Stage::kRelease}, 1, 0, stages);
  return stages;
}

void Run::Add(const Stage& stage, int heads, double cost, std::vector<AttentionStage>& stages) {
  stages_.push_back(stage);
  stages.push_back({heads * stage.cuts, cost});
}

void Run::AddHeads(const AttentionRows& rows, int first, int count, std::vector<AttentionStage>& stages) {
  const Options& o = options();
  const double n = static_cast<double>(rows.count), taken = std::min<double>(n, kTakenRows);
  const double hash = static_cast<double>(o.outputs() * o.head_dim);
  const int64_t slots = std::min(rows.count, o.task_slots());
  Add({.kind = Stage::kTake, .first_head = first, .cuts = TakenCuts(from_, tokens())}, count,
      taken * (hash + kMoved * static_cast<double>(o.head_dim)), stages);
  Add({.kind = Stage::kSort, .first_head = first}, count, kMoved * n * static_cast<double>(rounds()), stages);
  for (int64_t round = 0; round < rounds(); ++round) {
    Add({.kind = Stage::kRound, .first_head = first, .round = round, .cuts = Quotient(rows.count, slots)},
        count, RowCost() * static_cast<double>(slots), stages);
  }
}

double Run::RowCost() const {
  return 2.0 * static_cast<double>(std::min(tokens(), options().keys()) * options().head_dim);
}

void Run::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  const auto [kind, first_head, round, cuts] = stages_[stage];
  const int head = first_head + static_cast<int>(task / cuts);
  const int64_t cut = task % cuts, slots = options().task_slots();
  switch (kind) {
    case Stage::kFew:
      for (int64_t i = 0; i < TakenCuts(from_, tokens()); ++i) Take(rows, head, i, scratch);
      Sort(rows, head);
      for (int64_t r = 0; r < rounds(); ++r) AttendRound(rows, head, r, {0, rows.count}, scratch);
      return;
    case Stage::kTake:
      return Take(rows, head, cut, scratch);
    case Stage::kSort:
      return Sort(rows, head);
    case Stage::kRound:
      return AttendRound(rows, head, round, {cut * slots, std::min((cut + 1) * slots, rows.count)}, scratch);
    case Stage::kRelease:
      work_ = Buffer();
  }
}

Work Run::WorkOf(const AttentionRows& rows, int head) {
  const Options& o = options();
  const int64_t n = rows.count, of_head = head % HeadsAtOnce(o, n) * n * Work::RowBytes(o);
  float* results = reinterpret_cast<float*>(work_.as<char>() + of_head);
  float* lse = results + n * o.head_dim;
  int32_t* buckets = reinterpret_cast<int32_t*>(lse + n);
  return {
      {{DType::kF32, results, n, o.head_dim, o.head_dim}, lse, from_}, buckets, buckets + n * o.rounds, n};
}

void Run::Take(const AttentionRows& rows, int head, int64_t cut, Scratch& scratch) {
  const ScratchFrame frame(scratch);
  const int64_t dim = options().head_dim;
  const Rows s = rows.products[kS].Cols(head * dim, dim), v = rows.products[kV].Cols(head * dim, dim);
  const Rows wide{DType::kF32, scratch.Take<float>(kGrid * dim), kGrid, dim, dim};
  const Work work = WorkOf(rows, head);
  ForTakenPages(from_, tokens(), cut, [&](int64_t token, int64_t count) {
    const int64_t row = token - from_;
    const Matrix<float> part = wide.Slice(0, count).As<float>();
    const TokenPages::Place place = heads_[head].pages().Open(token, count);
    Convert(s.Slice(row, count), wide.Slice(0, count));
    RmsNorm(part, attention_->key_norm(), kEpsilon, place.keys);
    Convert(v.Slice(row, count), place.values);
    attention_->Hash(head, part, work.buckets + row, work.rows, scratch);
  });
}

void Run::Sort(const AttentionRows& rows, int head) {
  const Work work = WorkOf(rows, head);
  work.merged.Clear();
  for (int64_t round = 0; round < options().rounds; ++round) {
    SortByBucket(work.Buckets(round), options().buckets(), work.Order(round));
    if (options().causal) heads_[head].Link(round, work.Buckets(round));
  }
}

// Rows have one slot each, so that tasks of a round share none; the last round's results are written.
void Run::AttendRound(const AttentionRows& rows, int head, int64_t round, Range slots, Scratch& scratch) {
  const int64_t dim = options().head_dim;
  const Memory& memory = heads_[head];
  const Work work = WorkOf(rows, head);
  const Rows s = rows.products[kS].Cols(head * dim, dim);
  const auto query = [&](int64_t token) { return s.at(token - from_); };
  const auto key = [&](int64_t token) { return memory.pages().Key(token); };
  const auto value = [&](int64_t token) { return memory.pages().Value(token); };
  for (int64_t end = slots.end; slots.begin < end;) {
    const Gathering gathering = meeting_ == Meeting::kArrived
                                    ? Arrived(memory, work, from_, round, {slots.begin, end})
                                    : Sorted(work, round, {slots.begin, end});
    attention_->core().AttendAndMerge(gathering, {query, key, value}, work.merged, scratch);
    slots.begin += std::ssize(gathering.queries);
    for (int64_t token : gathering.queries) {
      if (round + 1 < rounds()) break;
      Convert(work.merged.results.Slice(token - from_, 1),
              rows.out.Cols(head * dim, dim).Slice(token - from_, 1));
    }
  }
}

// From the first of the slots on, what lies in one chunk, and what the tokens of a chunk read: a token as
// often as it stands there. All tokens are new.
Gathering Run::Sorted(const Work& work, int64_t round, Range slots) const {
  const Options& o = options();
  const std::span<const int32_t> order = work.Order(round);
  if (meeting_ == Meeting::kAll) {
    Gathering all{{order.begin() + slots.begin, order.begin() + slots.end}, std::vector<int32_t>(work.rows)};
    std::iota(all.keys.begin(), all.keys.end(), 0);
    return all;
  }
  const int64_t chunk = slots.begin / o.chunk, end = std::min(slots.end, (chunk + 1) * o.chunk);
  Gathering gathering{{order.begin() + slots.begin, order.begin() + end}, {}};
  const int64_t of_round = Quotient(work.rows, o.chunk), all = of_round * o.rounds;
  for (int64_t step = -o.before; step <= o.after; ++step) {
    const int64_t other = ((round * of_round + chunk + step) % all + all) % all;
    const std::span<const int32_t> there = work.Order(other / of_round);
    const int64_t first = other % of_round * o.chunk, last = std::min(first + o.chunk, work.rows);
    gathering.keys.insert(gathering.keys.end(), there.begin() + first, there.begin() + last);
  }
  if (o.causal) std::ranges::sort(gathering.keys);
  return gathering;
}

// From the first of the slots on, what lies in one chunk of one bucket: a chunk's keys are its own tokens so
// far, in their order, and those of the chunks before it.
Gathering Run::Arrived(const Memory& memory, const Work& work, int64_t first, int64_t round,
                       Range slots) const {
  const Options& o = options();
  const std::span<const int32_t> buckets = work.Buckets(round), order = work.Order(round);
  const int32_t bucket = buckets[order[slots.begin]];
  const auto alike = std::ranges::equal_range(order, bucket, {}, [&](int32_t row) { return buckets[row]; });
  const int64_t before = slots.begin - (alike.begin() - order.begin());
  const int64_t place = memory.Place(round, bucket, std::ssize(alike) - 1 - before), chunk = place / o.chunk;
  const int64_t count =
      std::min({slots.end - slots.begin, std::ssize(alike) - before, (chunk + 1) * o.chunk - place});
  Gathering gathering;
  for (int64_t slot = slots.begin; slot < slots.begin + count; ++slot)
    gathering.queries.push_back(static_cast<int32_t>(first + order[slot]));
  gathering.keys.resize(place + count - std::max<int64_t>(0, chunk - o.before) * o.chunk);
  int32_t token = gathering.queries.back();
  for (auto key = gathering.keys.rbegin(); key != gathering.keys.rend(); ++key) {
    *key = token;
    token = memory.Previous(round, token);
  }
  return gathering;
}

void Run::Archive(StateArchive& archive) {
  int64_t tokens = this->tokens();
  archive.Number(tokens, 0, kMostTokens);
  if (archive.measuring()) archive.Bytes(work_, static_cast<int64_t>(work_.size()));
  for (Memory& memory : heads_) memory.Archive(archive, tokens);
}

// ------------------------------------------------------------------------------------------- what is shared

LshAttention::LshAttention(const AttentionSetting& setting, Options options, std::vector<Product> products,
                           const std::vector<float>& rotations)
    : options_(std::move(options)),
      core_(ActivationType(setting.precision), options_.head_dim, {.causal = options_.causal, .own = kOwn}),
      key_norm_(options_.head_dim, 1 / std::sqrt(static_cast<float>(options_.head_dim))) {
  products_ = std::move(products);
  out_width_ = setting.width;
  data_dependent_ = true;
  decode_ = !options_.causal  ? DecodeClass::kNone
            : options_.strict ? DecodeClass::kExact
                              : DecodeClass::kApproximate;
  const int64_t dim = options_.head_dim, outputs = options_.outputs();
  std::vector<float> turned(outputs * dim);
  for (int head = 0; head < options_.heads; ++head) {
    const float* from = rotations.data() + head * dim * outputs;
    for (int64_t i = 0; i < outputs * dim; ++i) turned[i % outputs * dim + i / outputs] = from[i];
    rotations_.push_back(
        PackedWeights::Pack({{Tensor{DType::kF32, {outputs, dim}, turned.data()}, {}}}, Precision::kF32));
    constant_bytes_ += rotations_.back().bytes();
  }
}

std::unique_ptr<AttentionRun> LshAttention::Start() const { return std::make_unique<Run>(*this); }

// The largest of [p; -p]; of equal ones the first.
int64_t Corner(const float* p, int64_t directions) {
  int64_t best = 0;
  float largest = p[0];
  for (int64_t i = 1; i < 2 * directions; ++i) {
    const float x = i < directions ? p[i] : -p[i - directions];
    if (x > largest) {
      largest = x;
      best = i;
    }
  }
  return best;
}

void LshAttention::Hash(int head, Matrix<float> s, int32_t* buckets, int64_t pitch, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const int64_t outputs = options_.outputs();
  const Rows rows{DType::kF32, s.data, s.rows, s.cols, s.stride};
  const Rows turned{DType::kF32, scratch.Take<float>(s.rows * outputs), s.rows, outputs, outputs};
  Team alone;
  Gemm(alone, {rows}, rotations_[head], {.out = turned}, scratch);
  for (int64_t i = 0; i < s.rows * options_.rounds; ++i) {
    const int64_t row = i / options_.rounds, round = i % options_.rounds;
    const float* p = turned.As<float>().row(row) + round * options_.directions();
    int64_t bucket = 0, product = 1;
    for (int64_t factor : options_.factors) {
      bucket += product * Corner(p, factor / 2);
      product *= factor;
      p += factor / 2;
    }
    buckets[round * pitch + row] = static_cast<int32_t>(bucket);
  }
}

int64_t LshAttention::StateBytes(int64_t tokens) const {
  const int64_t pages =
      TokenPages::Bytes(core_.type(), options_.head_dim, Memory::LinkBytes(options_), tokens);
  const int64_t worked =
      std::max(options_.heads * std::min(tokens, kFewRows), Quotient(options_.heads, 2) * tokens);
  return sizeof(int64_t) + worked * Work::RowBytes(options_) +
         options_.heads * (pages + Memory::ListBytes(options_));
}

double LshAttention::Cost(int64_t rows, int64_t tokens) const {
  const double keys = static_cast<double>(std::min(tokens, options_.keys()));
  const double hash = static_cast<double>(options_.outputs()), rounds = static_cast<double>(options_.rounds);
  return static_cast<double>(rows) * (hash + 2 * rounds * keys) * static_cast<double>(out_width_);
}

int64_t LshAttention::ScratchBytes() const {
  const auto floats = [](int64_t n) { return Scratch::Piece(n * SizeOf(DType::kF32)); };
  const int64_t hash =
      floats(kGrid * options_.head_dim) + floats(kGrid * options_.outputs()) + GemmScratchBytes();
  return std::max(hash, core_.ScratchBytes(std::min(options_.chunk, options_.task_slots())));
}

// ------------------------------------------------------------------------------------------- the options

std::vector<int64_t> ReadFactors(JsonFields& fields) {
  const Json& value = fields.Raw("num_buckets");
  const Json list = value.is_array() ? value : Json::array({value});
  std::vector<int64_t> factors;
  int64_t product = 1;
  for (const Json& factor : list) {
    const bool fits = factor.is_number_integer() && factor >= 2 && factor <= kMostBuckets / product;
    if (!fits || factor.get<int64_t>() % 2 != 0) {
      fields.Fail(Cat("num_buckets: ", Shown(value), " is no even number or list of even factors, at most ",
                      kMostBuckets, " in all"));
      return {2};
    }
    factors.push_back(factor);
    product *= factors.back();
  }
  if (factors.empty()) fields.Fail("num_buckets: [] has no factor");
  return factors;
}

absl::StatusOr<Options> ReadOptions(const AttentionSetting& setting, JsonFields& fields) {
  Options options;
  options.heads = setting.num_heads;
  options.head_dim = HeadDim(setting, fields);
  options.causal = setting.causal;
  options.strict = fields.Bool("strict_causal", false);
  options.chunk = fields.RequiredInt("chunk_length", 1, kMostChunk);
  options.before = fields.Int("chunks_before", 1, 0, kMostChunks);
  options.after = fields.Int("chunks_after", 0, 0, kMostChunks);
  options.rounds = fields.RequiredInt("num_hashes", 1, kMostRounds);
  options.factors = ReadFactors(fields);
  if (setting.cross) fields.Fail("queries are keys here: cross-attention has others");
  if (setting.causal && options.after > 0) {
    fields.Fail(Cat("chunks_after: ", options.after, " chunks of later tokens in a decoder"));
  }
  if (!setting.causal && options.strict) fields.Fail("strict_causal: this attention is not causal");
  RETURN_IF_ERROR(fields.Finish());
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewLshAttention(const AttentionSetting& setting,
                                                           JsonFields& fields, const WeightScope& scope) {
  ASSIGN_OR_RETURN(Options options, ReadOptions(setting, fields));
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadProducts(scope, {"q", "v"}, setting));
  products[kS].chooses = true;
  ASSIGN_OR_RETURN(
      std::vector<float> rotations,
      scope.Floats("rotations", {options.heads, options.head_dim, options.rounds, options.directions()}));
  return std::make_unique<LshAttention>(setting, std::move(options), std::move(products), rotations);
}

}  // namespace heed
