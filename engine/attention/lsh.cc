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
// Buckets are decided in f32 from s as the precision at hand has rounded it: another precision may put a
// token elsewhere, other company never does.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/attention/key_value_pages.h"
#include "engine/attention/softmax_core.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostChunk = 1 << 12, kMostChunks = 64, kMostRounds = 64, kMostBuckets = 1 << 20;
constexpr float kSelf = -1e5f * kLog2E;
constexpr float kEpsilon = 1e-6f;
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
};

class LshAttention : public Attention {
 public:
  LshAttention(const AttentionSetting& setting, Options options, std::vector<Product> products,
               const std::vector<float>& rotations);
  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override;
  double Cost(int64_t n) const override;
  int64_t ScratchBytes(int64_t rows) const override;

  const Options& options() const { return options_; }
  const SoftmaxCore& core() const { return core_; }
  const float* key_norm() const { return key_norm_.data(); }
  // The buckets of rows s, at most kGrid and with memory for so many: [rows, rounds].
  void Hash(int head, Matrix<float> s, int32_t* buckets, Scratch& scratch) const;

 private:
  Options options_;
  SoftmaxCore core_;
  std::vector<float> key_norm_;           // [head_dim] 1 / sqrt(head_dim)
  std::vector<PackedWeights> rotations_;  // of a head: rounds * directions outputs
};

// One head's keys and values, and for each round and bucket the list of its tokens, newest first.
class Memory {
 public:
  explicit Memory(const LshAttention& attention);
  Memory(const Memory& other);
  Memory(Memory&&) = default;

  int64_t tokens() const { return tokens_; }
  // Takes rows of s and v in; writes their buckets [rows, rounds].
  void Append(int head, const Rows& s, const Rows& v, int32_t* buckets, Scratch& scratch);
  const void* Key(int64_t token) const { return At(token, 0, row_bytes_); }
  const void* Value(int64_t token) const { return At(token, kGrid * row_bytes_, row_bytes_); }
  // In a round: the token before this one in its bucket; how many came before a bucket's newest token but
  // `ago`.
  int32_t Previous(int64_t round, int64_t token) const { return Links(token)[round]; }
  int32_t Place(int64_t round, int32_t bucket, int64_t ago) const {
    return List(round, bucket)->count - 1 - ago;
  }
  void Archive(StateArchive& archive, int64_t tokens);

  static int64_t PageBytes(const Options& options, DType type) {
    return kGrid * (2 * options.head_dim * SizeOf(type) + options.rounds * sizeof(int32_t));
  }
  static int64_t ListBytes(const Options& options) {
    return options.causal ? options.rounds * options.buckets() * sizeof(BucketList) : 0;
  }

 private:
  struct BucketList {
    int32_t newest = -1;
    int32_t count = 0;
  };
  char* At(int64_t token, int64_t offset, int64_t bytes) const {
    return pages_[token / kGrid]->as<char>() + offset + token % kGrid * bytes;
  }
  int32_t* Links(int64_t token) const {
    return reinterpret_cast<int32_t*>(At(token, 2 * kGrid * row_bytes_, options().rounds * sizeof(int32_t)));
  }
  BucketList* List(int64_t round, int32_t bucket) const {
    return const_cast<Buffer&>(lists_).as<BucketList>() + round * options().buckets() + bucket;
  }
  const Options& options() const { return attention_->options(); }
  Rows Part(int64_t token, int64_t count, int64_t offset) const;
  void Link(const int32_t* buckets);
  bool Consistent() const;

  const LshAttention* attention_;
  int64_t row_bytes_;
  int64_t tokens_ = 0;
  std::vector<std::shared_ptr<Buffer>> pages_;  // keys, values, links; shared by copies once full
  Buffer lists_;                                // [rounds, buckets]
};

Memory::Memory(const LshAttention& attention)
    : attention_(&attention), row_bytes_(options().head_dim * SizeOf(attention.core().type())) {
  lists_ = Buffer(ListBytes(options()));
  std::fill_n(lists_.as<BucketList>(), lists_.size() / sizeof(BucketList), BucketList());
}

Memory::Memory(const Memory& other)
    : attention_(other.attention_),
      row_bytes_(other.row_bytes_),
      tokens_(other.tokens_),
      pages_(other.pages_),
      lists_(other.lists_) {
  if (tokens_ % kGrid != 0) pages_.back() = std::make_shared<Buffer>(*pages_.back());
}

Rows Memory::Part(int64_t token, int64_t count, int64_t offset) const {
  return {attention_->core().type(), At(token, offset, row_bytes_), count, options().head_dim,
          options().head_dim};
}

void Memory::Append(int head, const Rows& s, const Rows& v, int32_t* buckets, Scratch& scratch) {
  const ScratchFrame frame(scratch);
  const int64_t dim = options().head_dim;
  const Rows wide{DType::kF32, scratch.Take<float>(kGrid * dim), kGrid, dim, dim};
  for (int64_t row = 0, count; row < s.rows; row += count) {
    if (tokens_ % kGrid == 0) {
      pages_.push_back(
          std::make_shared<Buffer>(Buffer::Zeros(PageBytes(options(), attention_->core().type()))));
    }
    count = std::min(kGrid - tokens_ % kGrid, s.rows - row);
    const Rows part = wide.Slice(0, count);
    Convert(s.Slice(row, count), part);
    RmsNorm(part.As<float>(), attention_->key_norm(), kEpsilon, Part(tokens_, count, 0));
    Convert(v.Slice(row, count), Part(tokens_, count, kGrid * row_bytes_));
    attention_->Hash(head, part.As<float>(), buckets + row * options().rounds, scratch);
    for (int64_t r = row; r < row + count; ++r) Link(buckets + r * options().rounds);
  }
}

void Memory::Link(const int32_t* buckets) {
  for (int64_t round = 0; round < options().rounds && options().causal; ++round) {
    BucketList* list = List(round, buckets[round]);
    Links(tokens_)[round] = std::exchange(list->newest, static_cast<int32_t>(tokens_));
    ++list->count;
  }
  ++tokens_;
}

void Memory::Archive(StateArchive& archive, int64_t tokens) {
  if (archive.restoring()) tokens_ = tokens;
  for (int64_t first = 0; first < tokens && archive.status().ok(); first += kGrid) {
    if (archive.restoring())
      pages_.push_back(std::make_shared<Buffer>(PageBytes(options(), attention_->core().type())));
    Buffer& page = *pages_[first / kGrid];
    archive.Bytes(page, page.size());
  }
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
      if (list.count < 0 || (sum += list.count) > tokens_) return false;
      int64_t token = list.newest, above = tokens_;
      for (int32_t i = 0; i < list.count; ++i) {
        if (token < 0 || token >= above) return false;
        above = std::exchange(token, Previous(round, token));
      }
      if (token != -1) return false;
    }
    if (sum != tokens_) return false;
  }
  return true;
}

// ------------------------------------------------------------------------------------------- one Extend()

// Tokens that read the same keys, both by their numbers.
struct Group {
  std::vector<int32_t> queries;
  std::vector<int32_t> keys;
  // Where the first query stands among the keys, if each sees no key after itself.
  int64_t first = kUnlimited / 2;
};

// A token with itself, and in a decoder with later ones.
class ByOrder : public ScoreBias {
 public:
  ByOrder(const Group& group, bool causal, Scratch& scratch)
      : group_(group), causal_(causal), values_(scratch.Take<float>(SoftmaxCore::kTile * kKeyBlock)) {}
  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override {
    const int64_t end = std::min<int64_t>(block.end, std::ssize(group_.keys) - block.base);
    for (size_t r = 0; r < rows.size(); ++r) {
      const int32_t own = group_.queries[block.first_row + r];
      const int32_t* keys = group_.keys.data() + block.base;
      const float later = causal_ ? kMasked : 0;
      float* values = values_ + r * kKeyBlock;
      for (int64_t c = block.begin; c < end; ++c)
        values[c] = keys[c] < own ? 0 : keys[c] > own ? later : kSelf;
      rows[r].bias = values;
      rows[r].bias_offset = 0;
    }
  }

 private:
  const Group& group_;
  bool causal_;
  float* values_;
};

// Numbers 0 .. n - 1 in order of their bucket, those of one bucket in their own order.
std::vector<int32_t> SortedByBucket(const std::vector<int32_t>& buckets, int64_t limit) {
  std::vector<int32_t> place(limit + 1), order(buckets.size());
  for (int32_t bucket : buckets) ++place[bucket + 1];
  std::partial_sum(place.begin(), place.end(), place.begin());
  for (size_t i = 0; i < buckets.size(); ++i) order[place[buckets[i]]++] = static_cast<int32_t>(i);
  return order;
}

// The new rows of one head.
class Call {
 public:
  Call(const LshAttention& attention, const Memory& memory, int head, const AttentionRows& rows,
       const int32_t* buckets, Scratch& scratch);
  void AttendToAll();    // no hash
  void AttendSorted();   // all tokens are new
  void AttendArrived();  // the definition of a step
  void Finish();

 private:
  std::vector<int32_t> BucketsOf(int64_t round) const;
  std::vector<int32_t> Keys(const std::vector<int32_t>& slots, int64_t chunk) const;
  void AttendBucket(int64_t round, int32_t bucket, std::span<const int32_t> rows);
  void Attend(const Group& group);
  void Merge(int64_t row, const void* result, float z);

  const LshAttention& attention_;
  const Options& o_;
  const Memory& memory_;
  Rows s_, out_;
  int64_t first_;
  const int32_t* buckets_;
  Scratch& scratch_;
  Matrix<float> sum_;  // of the rounds so far
  std::span<float> z_;
};

Call::Call(const LshAttention& attention, const Memory& memory, int head, const AttentionRows& rows,
           const int32_t* buckets, Scratch& scratch)
    : attention_(attention),
      o_(attention.options()),
      memory_(memory),
      s_(rows.products[kS].Cols(head * o_.head_dim, o_.head_dim)),
      out_(rows.out.Cols(head * o_.head_dim, o_.head_dim)),
      first_(rows.first),
      buckets_(buckets),
      scratch_(scratch),
      sum_{scratch.Take<float>(rows.count * o_.head_dim), rows.count, o_.head_dim, o_.head_dim},
      z_(scratch.Take<float>(rows.count), rows.count) {
  std::ranges::fill(z_, -std::numeric_limits<float>::infinity());
}

std::vector<int32_t> Call::BucketsOf(int64_t round) const {
  std::vector<int32_t> buckets(s_.rows);
  for (int64_t r = 0; r < s_.rows; ++r) buckets[r] = buckets_[r * o_.rounds + round];
  return buckets;
}

void Call::AttendToAll() {
  Group group;
  group.queries.resize(s_.rows);
  std::iota(group.queries.begin(), group.queries.end(), 0);
  group.keys = group.queries;
  Attend(group);
}

void Call::AttendSorted() {
  const int64_t chunks = (s_.rows + o_.chunk - 1) / o_.chunk;  // of a round; its last is filled up with -1
  std::vector<int32_t> slots;
  for (int64_t round = 0; round < o_.rounds; ++round) {
    const std::vector<int32_t> order = SortedByBucket(BucketsOf(round), o_.buckets());
    slots.insert(slots.end(), order.begin(), order.end());
    slots.resize((round + 1) * chunks * o_.chunk, -1);
  }
  for (int64_t chunk = 0; chunk < o_.rounds * chunks; ++chunk) {
    Group group;
    for (int64_t slot = chunk * o_.chunk; slot < (chunk + 1) * o_.chunk; ++slot) {
      if (slots[slot] >= 0) group.queries.push_back(slots[slot]);
    }
    group.keys = Keys(slots, chunk);
    Attend(group);
  }
}

// What the tokens of a chunk read: a token as often as it stands there.
std::vector<int32_t> Call::Keys(const std::vector<int32_t>& slots, int64_t chunk) const {
  const int64_t chunks = std::ssize(slots) / o_.chunk;
  std::vector<int32_t> keys;
  for (int64_t step = -o_.before; step <= o_.after; ++step) {
    const int64_t other = ((chunk + step) % chunks + chunks) % chunks;
    for (int64_t slot = other * o_.chunk; slot < (other + 1) * o_.chunk; ++slot) {
      if (slots[slot] >= 0) keys.push_back(slots[slot]);
    }
  }
  return keys;
}

void Call::AttendArrived() {
  for (int64_t round = 0; round < o_.rounds; ++round) {
    const std::vector<int32_t> buckets = BucketsOf(round), order = SortedByBucket(buckets, o_.buckets());
    for (size_t begin = 0, end; begin < order.size(); begin = end) {
      const int32_t bucket = buckets[order[begin]];
      end = begin + 1;
      while (end < order.size() && buckets[order[end]] == bucket) ++end;
      AttendBucket(round, bucket, std::span(order).subspan(begin, end - begin));
    }
  }
}

// The new rows of one bucket, chunk by chunk: a chunk's keys are its own tokens so far, in their order, and
// those of the chunks before it.
void Call::AttendBucket(int64_t round, int32_t bucket, std::span<const int32_t> rows) {
  const int64_t first_place = memory_.Place(round, bucket, std::ssize(rows) - 1);
  for (int64_t begin = 0, end; begin < std::ssize(rows); begin = end) {
    const int64_t place = first_place + begin, chunk = place / o_.chunk;
    end = std::min<int64_t>(std::ssize(rows), (chunk + 1) * o_.chunk - first_place);
    const int64_t first_key = std::max<int64_t>(0, chunk - o_.before) * o_.chunk;
    Group group;
    for (int64_t i = begin; i < end; ++i) group.queries.push_back(static_cast<int32_t>(first_ + rows[i]));
    group.first = place - first_key;
    group.keys.resize(group.first + end - begin);
    int32_t token = group.queries.back();
    for (auto key = group.keys.rbegin(); key != group.keys.rend(); ++key) {
      *key = token;
      token = memory_.Previous(round, token);
    }
    Attend(group);
  }
}

void Call::Attend(const Group& group) {
  const ScratchFrame frame(scratch_);
  const DType type = attention_.core().type();
  const int64_t dim = o_.head_dim, bytes = dim * SizeOf(type);
  const auto take = [&](const std::vector<int32_t>& tokens) {
    const int64_t count = std::ssize(tokens);
    return Rows{type, scratch_.Take<char>(count * bytes), count, dim, dim};
  };
  const Rows keys = take(group.keys), values = take(group.keys);
  for (int64_t i = 0; i < keys.rows; ++i) {
    std::memcpy(keys.at(i), memory_.Key(group.keys[i]), bytes);
    std::memcpy(values.at(i), memory_.Value(group.keys[i]), bytes);
  }
  KeyValuePages pages(type, dim);
  pages.Append(keys, values);
  SoftmaxQueries queries;
  queries.q = take(group.queries);
  queries.out = take(group.queries);
  queries.first = group.first;
  queries.lse = scratch_.Take<float>(group.queries.size());
  for (int64_t i = 0; i < queries.q.rows; ++i)
    std::memcpy(queries.q.at(i), s_.at(group.queries[i] - first_), bytes);
  const ByOrder order(group, o_.causal, scratch_);
  const KeySource source{.pages = &pages, .right = 0, .bias = &order};
  attention_.core().Attend(queries, {&source, 1}, scratch_);
  for (int64_t i = 0; i < queries.q.rows; ++i)
    Merge(group.queries[i] - first_, queries.out.at(i), queries.lse[i]);
}

void Call::Merge(int64_t row, const void* result, float z) {
  const float most = std::max(z_[row], z), old_share = std::exp(z_[row] - most), share = std::exp(z - most);
  const float total = old_share + share;
  const bool first = std::isinf(z_[row]);
  z_[row] = most + std::log(total);
  float* sum = sum_.row(row);
  const Rows one{out_.dtype, const_cast<void*>(result), 1, o_.head_dim, o_.head_dim};
  if (first) return Convert(one, {DType::kF32, sum, 1, o_.head_dim, o_.head_dim});
  const ScratchFrame frame(scratch_);
  float* next = scratch_.Take<float>(o_.head_dim);
  Convert(one, {DType::kF32, next, 1, o_.head_dim, o_.head_dim});
  for (int64_t c = 0; c < o_.head_dim; ++c) sum[c] = (sum[c] * old_share + next[c] * share) / total;
}

void Call::Finish() { Convert({DType::kF32, sum_.data, sum_.rows, sum_.cols, sum_.stride}, out_); }

class Run : public AttentionRun {
 public:
  explicit Run(const LshAttention& attention)
      : attention_(&attention), heads_(attention.options().heads, Memory(attention)) {}
  void Extend(const AttentionRows& rows, int head, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override;
  int64_t tokens() const override { return heads_.front().tokens(); }

 private:
  const LshAttention* attention_;
  std::vector<Memory> heads_;
};

void Run::Extend(const AttentionRows& rows, int head, Scratch& scratch) {
  const Options& o = attention_->options();
  Memory& memory = heads_[head];
  const auto of_head = [&](const Rows& all) {
    return all.Cols(head * o.head_dim, o.head_dim).Slice(0, rows.count);
  };
  int32_t* buckets = scratch.Take<int32_t>(rows.count * o.rounds);
  memory.Append(head, of_head(rows.products[kS]), of_head(rows.products[kV]), buckets, scratch);
  Call call(*attention_, memory, head, rows, buckets, scratch);
  if (o.strict || rows.first > 0) {
    call.AttendArrived();
  } else if (rows.count <= o.chunk) {
    call.AttendToAll();
  } else {
    call.AttendSorted();
  }
  call.Finish();
}

void Run::Archive(StateArchive& archive) {
  int64_t tokens = this->tokens();
  archive.Number(tokens, 0, kMostTokens);
  for (Memory& memory : heads_) memory.Archive(archive, tokens);
}

// ------------------------------------------------------------------------------------------- what is shared

LshAttention::LshAttention(const AttentionSetting& setting, Options options, std::vector<Product> products,
                           const std::vector<float>& rotations)
    : options_(std::move(options)),
      core_(ActivationType(setting.precision), options_.head_dim, 1),
      key_norm_(options_.head_dim, 1 / std::sqrt(static_cast<float>(options_.head_dim))) {
  products_ = std::move(products);
  out_width_ = setting.width;
  tasks_ = options_.heads;
  data_dependent_ = true;
  decode_ = !options_.causal  ? DecodeClass::kNone
            : options_.strict ? DecodeClass::kExact
                              : DecodeClass::kApproximate;
  const int64_t dim = options_.head_dim, outputs = options_.rounds * options_.directions();
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

void LshAttention::Hash(int head, Matrix<float> s, int32_t* buckets, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const int64_t outputs = options_.rounds * options_.directions();
  const Rows rows{DType::kF32, s.data, s.rows, s.cols, s.stride};
  const Rows turned{DType::kF32, scratch.Take<float>(s.rows * outputs), s.rows, outputs, outputs};
  Team alone;
  Gemm(alone, {rows}, rotations_[head], {.out = turned}, scratch);
  for (int64_t i = 0; i < s.rows * options_.rounds; ++i) {
    const float* p =
        turned.As<float>().row(i / options_.rounds) + i % options_.rounds * options_.directions();
    int64_t bucket = 0, product = 1;
    for (int64_t factor : options_.factors) {
      bucket += product * Corner(p, factor / 2);
      product *= factor;
      p += factor / 2;
    }
    buckets[i] = static_cast<int32_t>(bucket);
  }
}

int64_t LshAttention::StateBytes(int64_t tokens) const {
  const int64_t pages = (tokens + kGrid - 1) / kGrid;
  return sizeof(int64_t) +
         options_.heads * (pages * Memory::PageBytes(options_, core_.type()) + Memory::ListBytes(options_));
}

double LshAttention::Cost(int64_t n) const {
  const double keys = std::min<double>(n, (1 + options_.before + options_.after) * options_.chunk);
  const double length = n, hash = options_.rounds * options_.directions();
  return length * (hash + 2 * options_.rounds * keys) * out_width_;
}

// The buckets of all rows, and then either what they are found with, or the results of all rounds and what a
// chunk reads.
int64_t LshAttention::ScratchBytes(int64_t rows) const {
  const int64_t dim = options_.head_dim, chunk = std::min(rows, options_.chunk);
  const int64_t keys = (1 + options_.before + options_.after) * options_.chunk;
  const auto floats = [](int64_t n) { return Scratch::Piece(n * SizeOf(DType::kF32)); };
  const auto vectors = [&](int64_t n) { return Scratch::Piece(n * dim * SizeOf(core_.type())); };
  const int64_t hash = floats(kGrid * options_.rounds * options_.directions()) + GemmScratchBytes();
  const int64_t group = 2 * vectors(keys) + 2 * vectors(chunk) + floats(chunk) +
                        floats(SoftmaxCore::kTile * kKeyBlock) + core_.ScratchBytes() + floats(dim);
  return Scratch::Piece(rows * options_.rounds * static_cast<int64_t>(sizeof(int32_t))) +
         std::max(floats(kGrid * dim) + hash, floats(rows * dim) + floats(rows) + group);
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
  ASSIGN_OR_RETURN(
      std::vector<float> rotations,
      scope.Floats("rotations", {options.heads, options.head_dim, options.rounds, options.directions()}));
  return std::make_unique<LshAttention>(setting, std::move(options), std::move(products), rotations);
}

}  // namespace heed
