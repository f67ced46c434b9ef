#include "engine/attention/softmax_core.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "engine/base/round.h"
#include "engine/base/threads.h"
#include "engine/ops/few_rows.h"

namespace heed {
namespace {

// Up to so many rows a tile waits for memory, not for arithmetic: its products are made by hand, in the order
// in which keys and values lie, or, where they cannot be, what comes next is called for early.
constexpr int kWaitingRows = 8;

// Distances between rows of scores and of weights; no power of two, so that rows do not meet in one cache
// set.
constexpr int64_t kScorePitch = kKeyBlock + 16;
constexpr int64_t kWeightPitch = kKeyBlock + 32;

// The first of a source's parts, counted from place 0.
int64_t FirstPart(const KeyValuePages& pages) { return pages.begin() / kKeyPart; }

// What Get gives, kept in `slot`.
const MicroKernel* Kept(std::atomic<const MicroKernel*>& slot, const MicroKernel::Shape& shape) {
  const MicroKernel* kernel = slot.load(std::memory_order_acquire);
  if (kernel == nullptr) slot.store(kernel = MicroKernel::Get(shape), std::memory_order_release);
  return kernel;
}

int IndexOfRows(int rounded_rows) { return rounded_rows <= 8 ? rounded_rows - 1 : 7 + rounded_rows / 8; }

}  // namespace

SoftmaxCore::SoftmaxCore(DType type, int64_t head_dim, double scale, double cap)
    : type_(type),
      head_dim_(head_dim),
      pitch_(RoundUp(head_dim, 16)),
      cap_(static_cast<float>(cap)),
      into_cap_(cap > 0 ? static_cast<float>(scale / cap) : 0),
      factor_(static_cast<float>((cap > 0 ? 1 : scale) * std::numbers::log2e)) {}

const MicroKernel* SoftmaxCore::ScoreKernel(int rows) const {
  return Kept(score_kernels_[IndexOfRows(rows)], {.a = type_,
                                                  .m = rows,
                                                  .n = kSoftmaxPiece,
                                                  .k = static_cast<int>(head_dim_),
                                                  .lda = pitch_,
                                                  .ldb = kSoftmaxPiece,
                                                  .ldc = kScorePitch});
}

const MicroKernel* SoftmaxCore::ValueKernel(int rows, int64_t panel_width, int pieces) const {
  auto& kernels = panel_width == KeyValuePages::kValuePanel ? value_kernels_ : last_value_kernels_;
  return Kept(kernels[pieces - 1][IndexOfRows(rows)],
              {.a = type_,
               .m = rows,
               .n = static_cast<int>(panel_width),
               .k = kSoftmaxPiece,
               .batch = pieces,
               .lda = type_ == DType::kF32 ? kScorePitch : kWeightPitch,
               .ldb = panel_width,
               .ldc = pitch_,
               .add = true});
}

// One call: a tile of query rows at a time. Rows are numbered position by position, within a position head by
// head.
class SoftmaxCore::Call {
 public:
  Call(const SoftmaxCore& core, const SoftmaxQueries& queries, Scratch& scratch);
  void Start(int64_t first_row, int rows);
  void AttendPart(const KeySource& source, int64_t part);
  void AttendSources(std::span<const KeySource> sources);  // all their parts, merged
  // What the rows have seen of a part, to and from memory: a row's result, its maximum and its sum.
  void Write(float* part) const;
  void Read(const float* part);
  void Merge(const float* next, float* part) const;    // `next` has come after `part`
  void MergeAll(int64_t parts, const float* results);  // side by side
  void Finish();
  void WriteWeights(std::span<const KeySource> sources);  // after Finish()

 private:
  // Whose a row of the tile is: among the queries.
  struct Asking {
    int64_t row;
    int head;
  };
  // Some keys of one block.
  struct Block {
    int64_t base;    // position of the block's first key: column 0 of the scores
    int begin, end;  // columns at work, multiples of kSoftmaxPiece
  };

  bool ByHand() const {
    return rounded_rows_ <= kWaitingRows && CanMultiplyFewRows(q_.Slice(0, rounded_rows_));
  }
  std::span<float> WeightsOf(size_t r) const { return queries_.weights(asking_[r].row, asking_[r].head); }
  void Clear();
  Range Look(const KeySource& source);
  void AttendKeys(const KeySource& source, Range keys, int64_t part);
  void Load(const KeySource& source, Range keys);  // its loose rows too, where they are among these keys
  void LoadQueries(const KeySource& source);
  template <typename F>
  void ForBlocks(Range keys, F f);
  void AttendBlock(const KeySource& source, const Block& block);
  void WriteBlock(const KeySource& source, const Block& block, std::span<const float> shares);
  void Score(const KeyValuePages& pages, const Block& block);
  void Multiply(const KeyValuePages& pages, const Block& block);
  void MultiplyByHand(const KeyValuePages& pages, const Block& block);
  void Mark(const KeySource& source, const Block& block);
  BiasBlock BiasAt(const Block& block) const;
  void AddValues(const KeyValuePages& pages, const Block& block);
  void AddPanel(const KeyValuePages& pages, const Block& block, int64_t value_column);
  void AddPanelByHand(const KeyValuePages& pages, const Block& block, int64_t value_column);

  const SoftmaxCore& core_;
  const SoftmaxQueries& queries_;
  int64_t first_row_ = 0;
  int rounded_rows_ = 0;  // what the micro-kernel computes; those beyond the tile's rows are nobody's
  Rows q_;                // turned as loaded_ wants it
  const KeySource* loaded_ = nullptr;
  void* loose_;           // rows of its pages, packed
  Matrix<float> scores_;  // of one block
  Rows weights_;          // in f32 the scores' own memory
  Matrix<float> result_;
  float *merged_, *next_;         // parts, where there are several
  std::span<SoftmaxRow> rows_;    // the tile's
  std::span<Range> sights_;       // of the rows, in the source at hand
  std::span<Asking> asking_;      // the rows
  std::span<int64_t> positions_;  // of the rows
  std::span<int64_t> places_;     // of the rows, as rotation sees them
};

void SoftmaxCore::Attend(const SoftmaxQueries& queries, std::span<const KeySource> sources,
                         Scratch& scratch) const {
  const int64_t rows = queries.q.rows * queries.heads;
  Call call(*this, queries, scratch);
  for (int64_t first = 0; first < rows; first += kTile) {
    call.Start(first, static_cast<int>(std::min<int64_t>(kTile, rows - first)));
    call.AttendSources(sources);
    call.Finish();
    if (queries.weights) call.WriteWeights(sources);
  }
}

int64_t SoftmaxCore::Parts(const KeyValuePages& pages) {
  return pages.begin() >= pages.end() ? 0 : (pages.end() - 1) / kKeyPart + 1 - FirstPart(pages);
}

int64_t SoftmaxCore::PartBytes(int64_t rows) const {
  return rows * part_pitch() * static_cast<int64_t>(sizeof(float));
}

void SoftmaxCore::AttendPart(const SoftmaxQueries& queries, std::span<const KeySource> sources, int64_t part,
                             void* result, Scratch& scratch) const {
  Call call(*this, queries, scratch);
  call.Start(0, static_cast<int>(queries.q.rows * queries.heads));
  for (const KeySource& source : sources) {
    const int64_t parts = Parts(*source.pages);
    if (part >= 0 && part < parts) call.AttendPart(source, FirstPart(*source.pages) + part);
    part -= parts;
  }
  call.Write(static_cast<float*>(result));
}

void SoftmaxCore::MergeParts(const SoftmaxQueries& queries, int64_t parts, const void* results,
                             Scratch& scratch) const {
  Call call(*this, queries, scratch);
  call.Start(0, static_cast<int>(queries.q.rows * queries.heads));
  call.MergeAll(parts, static_cast<const float*>(results));
  call.Finish();
}

SoftmaxCore::Call::Call(const SoftmaxCore& core, const SoftmaxQueries& queries, Scratch& scratch)
    : core_(core), queries_(queries) {
  const int64_t rows = RoundRows(static_cast<int>(std::min<int64_t>(kTile, queries.q.rows * queries.heads)));
  const int64_t pitch = core.pitch_;
  const int64_t q_bytes = rows * pitch * SizeOf(core.type_);
  q_ = {core.type_, scratch.Take<char>(q_bytes), rows, core.head_dim_, pitch};
  std::memset(q_.data, 0, q_bytes);  // also behind an odd head_dim, and in rows that are nobody's
  scores_ = {scratch.Take<float>(rows * kScorePitch), rows, kKeyBlock, kScorePitch};
  weights_ = {DType::kF32, scores_.data, rows, kKeyBlock, kScorePitch};
  if (core.type_ == DType::kBf16) {
    weights_ = {DType::kBf16, scratch.Take<Bf16>(rows * kWeightPitch), rows, kKeyBlock, kWeightPitch};
  }
  result_ = {scratch.Take<float>(rows * pitch), rows, pitch, pitch};
  merged_ = scratch.Take<float>(rows * core.part_pitch());
  next_ = scratch.Take<float>(rows * core.part_pitch());
  loose_ = scratch.Take<char>(KeyValuePages::PackedBytes(core.type_, core.head_dim_));
  rows_ = {scratch.Take<SoftmaxRow>(rows), static_cast<size_t>(rows)};
  sights_ = {scratch.Take<Range>(rows), static_cast<size_t>(rows)};
  asking_ = {scratch.Take<Asking>(rows), static_cast<size_t>(rows)};
  positions_ = {scratch.Take<int64_t>(rows), static_cast<size_t>(rows)};
  places_ = {scratch.Take<int64_t>(rows), static_cast<size_t>(rows)};
}

int64_t SoftmaxCore::ScratchBytes() const {
  const int64_t weights = type_ == DType::kBf16 ? kWeightPitch * SizeOf(type_) : 0;
  const int64_t row = pitch_ * (SizeOf(type_) + SizeOf(DType::kF32)) + kScorePitch * SizeOf(DType::kF32) +
                      weights +
                      static_cast<int64_t>(sizeof(SoftmaxRow) + sizeof(Range) + 4 * sizeof(int64_t));
  return kTile * row +
         2 * Scratch::Piece(PartBytes(kTile)) +  // each of the rows' pieces is whole cache lines
         Scratch::Piece(KeyValuePages::PackedBytes(type_, head_dim_));
}

void SoftmaxCore::Call::Start(int64_t first_row, int rows) {
  first_row_ = first_row;
  rounded_rows_ = RoundRows(rows);
  rows_ = {rows_.data(), static_cast<size_t>(rows)};
  loaded_ = nullptr;
  Asking next{first_row / queries_.heads, static_cast<int>(first_row % queries_.heads)};
  for (int r = 0; r < rows; ++r) {
    asking_[r] = next;
    positions_[r] = queries_.first + next.row * queries_.step;
    if (++next.head == queries_.heads) next = {next.row + 1, 0};
  }
  Clear();
}

void SoftmaxCore::Call::Clear() {
  std::ranges::fill(rows_, SoftmaxRow());
  std::fill_n(result_.data, rounded_rows_ * result_.stride, 0.0f);
}

// Of the places that are held, those that any row of the tile sees.
Range SoftmaxCore::Call::Look(const KeySource& source) {
  Range all{source.pages->end(), source.pages->begin()};
  for (size_t r = 0; r < rows_.size(); ++r) {
    const Range seen = source.sees(positions_[r]);
    sights_[r] = {std::max(seen.begin, source.pages->begin()), std::min(seen.end, source.pages->end())};
    if (sights_[r].begin >= sights_[r].end) continue;
    all = {std::min(all.begin, sights_[r].begin), std::max(all.end, sights_[r].end)};
  }
  return all;
}

void SoftmaxCore::Call::AttendPart(const KeySource& source, int64_t part) {
  AttendKeys(source, Look(source), part);
}

// Those of a part; Look() was at this source.
void SoftmaxCore::Call::AttendKeys(const KeySource& source, Range keys, int64_t part) {
  keys = {std::max(keys.begin, part * kKeyPart), std::min(keys.end, (part + 1) * kKeyPart)};
  if (keys.begin >= keys.end) return;
  Load(source, keys);
  ForBlocks(keys, [&](const Block& block) { AttendBlock(source, block); });
}

template <typename F>
void SoftmaxCore::Call::ForBlocks(Range keys, F f) {
  for (int64_t base = RoundDown(keys.begin, kKeyBlock); base < keys.end; base += kKeyBlock) {
    const int64_t begin = std::max(keys.begin - base, int64_t{0}), end = std::min(keys.end - base, kKeyBlock);
    f(Block{base, static_cast<int>(RoundDown(begin, kSoftmaxPiece)),
            static_cast<int>(RoundUp(end, kSoftmaxPiece))});
  }
}

// Where no row sees anything of a part it is none: most tiles have one, and nothing is merged.
void SoftmaxCore::Call::AttendSources(std::span<const KeySource> sources) {
  bool seen = false, several = false;
  const auto merge = [&] {
    Write(several ? next_ : merged_);
    if (several) Merge(next_, merged_);
    several = true;
  };
  for (const KeySource& source : sources) {
    const Range keys = Look(source);
    const int64_t first = keys.begin / kKeyPart;
    for (int64_t part = first; part * kKeyPart < keys.end && keys.begin < keys.end; ++part) {
      if (seen && !(source.continues && part == first)) {
        merge();
        Clear();
      }
      AttendKeys(source, keys, part);
      seen = true;
    }
  }
  if (!several) return;
  merge();
  Read(merged_);
}

void SoftmaxCore::Call::Write(float* part) const {
  const int64_t pitch = core_.pitch_;
  for (size_t r = 0; r < rows_.size(); ++r, part += core_.part_pitch()) {
    std::copy_n(result_.row(r), pitch, part);
    part[pitch] = rows_[r].max;
    part[pitch + 1] = rows_[r].sum;
  }
}

void SoftmaxCore::Call::Read(const float* part) {
  const int64_t pitch = core_.pitch_;
  for (size_t r = 0; r < rows_.size(); ++r, part += core_.part_pitch()) {
    std::copy_n(part, pitch, result_.row(r));
    rows_[r].max = part[pitch];
    rows_[r].sum = part[pitch + 1];
  }
}

// Nothing seen leaves what was seen as it is, bit for bit.
void SoftmaxCore::Call::Merge(const float* next, float* part) const {
  const int64_t pitch = core_.pitch_;
  for (size_t r = 0; r < rows_.size(); ++r, part += core_.part_pitch(), next += core_.part_pitch()) {
    const float most = std::max(part[pitch], next[pitch]);
    const float share = std::exp2(part[pitch] - most), next_share = std::exp2(next[pitch] - most);
    if (next[pitch + 1] == 0) continue;
    for (int64_t c = 0; c < pitch; ++c) part[c] = part[c] * share + next[c] * next_share;
    part[pitch] = most;
    part[pitch + 1] = part[pitch + 1] * share + next[pitch + 1] * next_share;
  }
}

void SoftmaxCore::Call::MergeAll(int64_t parts, const float* results) {
  const int64_t size = std::ssize(rows_) * core_.part_pitch();
  std::copy_n(results, size, merged_);
  for (int64_t i = 1; i < parts; ++i) Merge(results + i * size, merged_);
  Read(merged_);
}

void SoftmaxCore::Call::Load(const KeySource& source, Range keys) {
  if (keys.end > source.pages->packed_end()) source.pages->PackLoose(loose_);
  LoadQueries(source);
}

void SoftmaxCore::Call::LoadQueries(const KeySource& source) {
  const bool alike = loaded_ != nullptr && loaded_->last_place == source.last_place &&
                     loaded_->pages->has_keys() == source.pages->has_keys();
  loaded_ = &source;
  if (alike) return;
  const size_t bytes = core_.head_dim_ * SizeOf(core_.type_);
  for (size_t r = 0; r < rows_.size(); ++r) {
    places_[r] = std::min(positions_[r], source.last_place);
    if (!source.pages->has_keys()) continue;
    std::memcpy(q_.at(r), queries_.q.at(asking_[r].row, asking_[r].head * core_.head_dim_), bytes);
  }
  if (queries_.rotary != nullptr)
    queries_.rotary->Apply(q_.Slice(0, rows_.size()), 1, places_.first(rows_.size()));
  if (queries_.norm != nullptr) queries_.norm->Apply(q_.Slice(0, rows_.size()));
}

void SoftmaxCore::Call::AttendBlock(const KeySource& source, const Block& block) {
  Score(*source.pages, block);
  Mark(source, block);
  SoftmaxStep({scores_, core_.factor_, block.begin, block.end, weights_}, rows_, result_);
  AddValues(*source.pages, block);
  if (source.bias != nullptr)
    source.bias->AddResults(BiasAt(block), weights_.Slice(0, std::ssize(rows_)), result_);
}

void SoftmaxCore::Call::Score(const KeyValuePages& pages, const Block& block) {
  Multiply(pages, block);
  const Matrix<float> columns = scores_.Cols(block.begin, block.end - block.begin);
  for (size_t r = 0; r < rows_.size() && queries_.scale != nullptr; ++r)
    Scale(queries_.scale->At(positions_[r]), columns.Rows(static_cast<int64_t>(r), 1));
  if (core_.cap_ == 0) return;
  SoftCap(core_.into_cap_, core_.cap_, columns.Rows(0, std::ssize(rows_)));
}

void SoftmaxCore::Call::Multiply(const KeyValuePages& pages, const Block& block) {
  if (!pages.has_keys()) {
    for (size_t r = 0; r < rows_.size(); ++r)
      std::fill(scores_.row(r) + block.begin, scores_.row(r) + block.end, 0.0f);
    return;
  }
  if (ByHand()) return MultiplyByHand(pages, block);
  const MicroKernel* kernel = core_.ScoreKernel(rounded_rows_);
  for (int column = block.begin; column < block.end; column += kSoftmaxPiece) {
    if (rounded_rows_ <= kWaitingRows) {
      pages.PrefetchValues(block.base + column);
      pages.PrefetchKeys(block.base + column + kKeyBlock);
    }
    kernel->Run(q_.data, pages.Keys(block.base + column, loose_), scores_.data + column);
  }
}

void SoftmaxCore::Call::MultiplyByHand(const KeyValuePages& pages, const Block& block) {
  for (int column = block.begin; column < block.end; column += kSoftmaxPiece) {
    const int64_t position = block.base + column;
    const PanelPiece keys{pages.Keys(position, loose_), core_.head_dim_, pages.ValuesAhead(position)};
    MultiplyFewRows({.a = q_.Slice(0, rounded_rows_),
                     .panel = {&keys, 1},
                     .sums = scores_.data + column,
                     .width = kSoftmaxPiece,
                     .ld = kScorePitch});
  }
}

void SoftmaxCore::Call::Mark(const KeySource& source, const Block& block) {
  for (size_t r = 0; r < rows_.size(); ++r) {
    SoftmaxRow& row = rows_[r];
    const Range seen = sights_[r];
    row.begin = static_cast<int>(std::clamp<int64_t>(seen.begin - block.base, block.begin, block.end));
    row.end = static_cast<int>(std::clamp<int64_t>(seen.end - block.base, row.begin, block.end));
    row.bias = nullptr;
  }
  if (source.bias != nullptr) source.bias->Mark(BiasAt(block), rows_);
}

BiasBlock SoftmaxCore::Call::BiasAt(const Block& block) const {
  return {.first_row = first_row_,
          .heads = queries_.heads,
          .first_head = queries_.first_head,
          .positions = places_.first(rows_.size()),
          .base = block.base,
          .begin = block.begin,
          .end = block.end};
}

void SoftmaxCore::Call::AddValues(const KeyValuePages& pages, const Block& block) {
  for (int64_t c = 0; c < pages.value_columns(); c += KeyValuePages::kValuePanel) {
    if (ByHand() && pages.PanelWidth(c) == KeyValuePages::kValuePanel) {
      AddPanelByHand(pages, block, c);
    } else {
      AddPanel(pages, block, c);
    }
  }
}

// A panel lies in one piece in each page.
void SoftmaxCore::Call::AddPanelByHand(const KeyValuePages& pages, const Block& block, int64_t value_column) {
  const int64_t page = pages.page();
  std::array<PanelPiece, kKeyBlock / KeyValuePages::kSmallPage> pieces;
  size_t count = 0;
  for (int64_t column = block.begin, next; column < block.end; column = next) {
    next = std::min<int64_t>(RoundDown(column, page) + page, block.end);
    const int64_t position = block.base + column;
    pieces[count++] = {pages.Values(position, value_column, loose_), next - column,
                       pages.KeysAhead(position, value_column)};
  }
  MultiplyFewRows({.a = weights_.Slice(0, rounded_rows_).Cols(block.begin, block.end - block.begin),
                   .panel = std::span(pieces).first(count),
                   .sums = result_.data + value_column,
                   .add = true,
                   .width = KeyValuePages::kValuePanel,
                   .ld = core_.pitch_});
}

void SoftmaxCore::Call::AddPanel(const KeyValuePages& pages, const Block& block, int64_t value_column) {
  std::array<MicroKernel::Offsets, kKeyBlock / kSoftmaxPiece> offsets;
  const void* values = pages.Values(block.base + block.begin, value_column, loose_);
  int pieces = 0;
  for (int column = block.begin; column < block.end; column += kSoftmaxPiece) {
    const void* piece = pages.Values(block.base + column, value_column, loose_);
    const intptr_t distance = reinterpret_cast<intptr_t>(piece) - reinterpret_cast<intptr_t>(values);
    offsets[pieces++] = {(column - block.begin) * SizeOf(core_.type_), distance};
  }
  const MicroKernel* kernel = core_.ValueKernel(rounded_rows_, pages.PanelWidth(value_column), pieces);
  kernel->Run(weights_.at(0, block.begin), values, offsets.data(), result_.data + value_column);
}

void SoftmaxCore::Call::Finish() {
  const DType type = queries_.out.dtype;
  const int64_t dim = core_.head_dim_;
  for (size_t r = 0; r < rows_.size(); ++r) {
    const auto [row, head] = asking_[r];
    void* out = queries_.out.at(row, head * dim);
    if (queries_.sinks != nullptr) rows_[r].sum += std::exp2(queries_.sinks[head] * kLog2E - rows_[r].max);
    float* lse =
        queries_.lse == nullptr ? nullptr : queries_.lse + row * queries_.lse_step * queries_.heads + head;
    if (queries_.merges) {
      SoftmaxMerge(rows_[r], result_.row(r), dim, type, out, *lse);
      continue;
    }
    SoftmaxFinish(rows_[r], result_.row(r), dim, type, out);
    if (lse != nullptr) *lse = LogSumExp(rows_[r]);
  }
}

// Once more over all keys, in f32: exp(score - maximum) / sum.
void SoftmaxCore::Call::WriteWeights(std::span<const KeySource> sources) {
  std::array<float, kTile> shares;
  for (size_t r = 0; r < rows_.size(); ++r) {
    shares[r] = rows_[r].sum != 0 ? 1 / rows_[r].sum : 0;
    std::ranges::fill(WeightsOf(r), 0.0f);
  }
  for (const KeySource& source : sources) {
    const Range keys = Look(source);
    if (keys.begin >= keys.end) continue;
    Load(source, keys);
    ForBlocks(keys, [&](const Block& block) { WriteBlock(source, block, shares); });
  }
}

// Two sources may hold the same key; it is masked in one of them. What is masked, or as small, is 0.
void SoftmaxCore::Call::WriteBlock(const KeySource& source, const Block& block,
                                   std::span<const float> shares) {
  Score(*source.pages, block);
  Mark(source, block);
  const Rows weights{DType::kF32, scores_.data, scores_.rows, scores_.cols, scores_.stride};
  SoftmaxStep({scores_, core_.factor_, block.begin, block.end, weights}, rows_, result_);
  std::array<int64_t, kKeyBlock> keys;
  const int64_t end = std::min<int64_t>(block.end, source.pages->end() - block.base);
  for (int64_t c = block.begin; c < end; ++c)
    keys[c] = source.key ? source.key(block.base + c) : block.base + c;
  for (size_t r = 0; r < rows_.size(); ++r) {
    const std::span<float> row = WeightsOf(r);
    for (int c = rows_[r].begin; c < rows_[r].end; ++c) {
      const float weight = scores_.row(r)[c];
      if (!(weight <= std::numeric_limits<float>::min())) row[keys[c]] += weight * shares[r];
    }
  }
}

}  // namespace heed
