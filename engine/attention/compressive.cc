// "compressive": Compressive Transformer (Rae et al. 2020). The text is cut into segments of `segment`
// tokens. A token sees its own segment up to itself, the `memory` tokens before the segment, and of what was
// before those the last `compressed_memory` rows that stand for `rate` tokens each:
//   row_g = compression of x_(g rate), ..., x_(g rate + rate - 1),  x the layer's inputs, before its norm
// Keys and values of such rows are products of norm(row_g) as those of any row are of norm(x). Scores have
// the relative positions of relative_positions.h, a compressed row being one step of distance:
//   ((q + u) . k + (q + v) . (Wr R_t)) / sqrt(head_dim)
// Options: segment; memory, a multiple of it, may be 0; compressed_memory, may be 0; rate, which divides
//   segment; clamp_length (none, or 0);
//   compression: "conv", or "mean" or "max", number by number.
// Tensors: q, k, v, r; pos_bias_u, pos_bias_v [heads, head_dim]; with "conv" compress.weight [out, in, rate]
//   and, where present, compress.bias.
//
// For texts that are longer than a window can be: it reaches rate * compressed_memory tokens further back
// than relative_memory does, for compressed_memory keys. State: constant, the keys and values of a segment,
// the memory, the groups of both and the compressed memory, and one open group. Decoding is exact.
//
// The paper keeps the inputs of its memory and compresses a segment of them when it leaves. What they become
// is known before: here a row is folded into its group when it comes, a group that is whole has its key and
// value at once, and is seen when its tokens have left the memory. No inputs are kept but the sum of the open
// group, and no step has the work of a segment to do.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/attention/compression.h"
#include "engine/attention/relative_positions.h"
#include "engine/base/round.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostRows = 1 << 16;  // of each memory, and of a segment
constexpr int64_t kGroups = 64;         // that are made together, at most
constexpr int64_t kPanels = 8;          // of 64 columns, of the products that one task makes
constexpr int kKeys = 1, kValues = 2;   // the products
constexpr int kCompressed = 1;          // the pattern's set

struct Options {
  int64_t segment = 1, memory = 0, compressed = 1, rate = 1;
};

// Set 0 holds the tokens, set 1 the compressed rows: a group's from its last token on.
class MemoryPattern : public Pattern {
 public:
  explicit MemoryPattern(const Options& options)
      : o_(options),
        tokens_({.block = o_.segment, .before = o_.memory, .causal = true}),
        groups_(
            {.block = o_.segment / o_.rate, .before = o_.memory / o_.rate + o_.compressed, .causal = true}) {
    sets_.push_back({.period = o_.rate, .begin = o_.rate - 1, .end = o_.rate, .made = true});
  }
  Range Sees(int set, int64_t position) const override {
    if (set != kCompressed) return tokens_.Sees(0, position);
    const int64_t left = Left(position);
    return {left - o_.compressed, left};
  }
  // Those that have left the memory and those that are still in it: blocks of a segment's groups.
  int64_t KeptFrom(int set, int64_t places) const override { return Held(set).KeptFrom(0, places); }
  int64_t MostKept(int set, int64_t places) const override { return Held(set).MostKept(0, places); }
  double Pairs(int64_t rows, int64_t tokens) const override {
    return tokens_.Pairs(rows, tokens) + CompressedPairs(tokens) - CompressedPairs(tokens - rows);
  }
  // Where the row at a position stands among compressed rows: after those, its memory and its segment.
  int64_t Place(int64_t position) const { return Left(position) + o_.memory + position % o_.segment; }

 private:
  const BlockPattern& Held(int set) const { return set == kCompressed ? groups_ : tokens_; }
  // Groups that have left the memory of the row at a position.
  int64_t Left(int64_t position) const {
    return std::max<int64_t>(0, RoundDown(position, o_.segment) - o_.memory) / o_.rate;
  }
  // Each segment sees so many groups more than the one before, until they are all that are kept.
  double CompressedPairs(int64_t tokens) const {
    const int64_t more = o_.segment / o_.rate, segments = tokens / o_.segment;
    const int64_t past = std::max<int64_t>(0, segments - o_.memory / o_.segment);
    const int64_t growing = std::min(past, o_.compressed / more + 1);
    const double whole = static_cast<double>(more) * static_cast<double>(growing * (growing - 1) / 2) +
                         static_cast<double>(past - growing) * static_cast<double>(o_.compressed);
    const int64_t last = std::min(past * more, o_.compressed);
    return whole * static_cast<double>(o_.segment) + static_cast<double>(tokens % o_.segment * last);
  }

  Options o_;
  BlockPattern tokens_, groups_;
};

struct Parts {
  std::shared_ptr<const MemoryPattern> pattern;
  std::vector<Product> products;
  RelativePositions relative;
  Compression compression;
};

class CompressiveAttention : public RelativeAttention {
 public:
  CompressiveAttention(const AttentionSetting& setting, const PatternOptions& options, Parts parts);
  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override {
    return PatternAttention::StateBytes(tokens) + width_ * SizeOf(DType::kF32);
  }
  double Cost(int64_t rows, int64_t tokens) const override;
  int64_t ScratchBytes() const override;

  const Compression& compression() const { return compression_; }
  int64_t width() const { return width_; }
  // Tokens of a round, which lies between multiples of so many positions: whole groups.
  int64_t TakenTogether() const;
  // Of all products of norm(rows), one part of the columns.
  void Multiply(const LayerInput& layer, const Matrix<const float>& rows, int64_t part, int64_t parts,
                const Rows& products, Scratch& scratch) const;

 protected:
  std::function<int64_t(int64_t)> Places(int set) const override {
    if (set != kCompressed) return {};
    return [this](int64_t position) { return pattern_->Place(position); };
  }

 private:
  int64_t Pitch() const { return width_ + static_cast<int64_t>(kAlignment) / SizeOf(core().type()); }

  std::shared_ptr<const MemoryPattern> pattern_;
  Compression compression_;
  int64_t width_, products_width_ = 0;
  Precision precision_;
};

// Before the pattern's stages come those in which compressed rows are made, round by round.
class CompressiveRun : public PatternRun {
 public:
  explicit CompressiveRun(const CompressiveAttention& attention)
      : PatternRun(attention),
        attention_(&attention),
        open_(Buffer::Lasting(attention.width() * sizeof(float))) {}
  CompressiveRun(const CompressiveRun& other)
      : PatternRun(other), attention_(other.attention_), open_(other.open_) {}
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<CompressiveRun>(*this); }
  void Archive(StateArchive& archive) override;

 private:
  // A head folds, a part of the products' columns is made, a head's keys and values are written.
  enum class Kind { kFold, kMultiply, kWrite, kRelease };
  struct Making {
    Kind kind = Kind::kRelease;
    Range tokens{};  // of the round
  };
  void MakeRoom(int64_t groups, int64_t columns);
  void Add(const Making& making, int64_t tasks, double cost, std::vector<AttentionStage>& stages);
  void AddRound(const AttentionRows& rows, Range tokens, std::vector<AttentionStage>& stages);
  // Groups that are whole at the end of the round, not before.
  Range Groups(Range tokens) const {
    const int64_t rate = attention_->compression().stride();
    return {tokens.begin / rate, tokens.end / rate};
  }
  void Fold(const AttentionRows& rows, Range tokens, int head, Scratch& scratch);
  void Write(const AttentionRows& rows, Range groups, int head);

  const CompressiveAttention* attention_;
  Buffer open_;  // the group that is not whole, f32
  // Of the rows at hand.
  std::vector<Making> makings_;
  int64_t parts_ = 1;         // of the products' columns
  Buffer memory_;             // of the two below
  Matrix<float> compressed_;  // groups of a round
  Rows products_;             // of them
};

// ---------------------------------------------------------------------------------- what is shared

CompressiveAttention::CompressiveAttention(const AttentionSetting& setting, const PatternOptions& options,
                                           Parts parts)
    : RelativeAttention(setting, options, std::move(parts.products), std::move(parts.relative)),
      pattern_(std::move(parts.pattern)),
      compression_(std::move(parts.compression)),
      width_(setting.width),
      precision_(setting.precision) {
  weighing_heads_ = 0;
  reads_input_ = true;
  for (const Product& product : products_) products_width_ += product.weight.dim(0);
  constant_bytes_ += compression_.bytes();
}

std::unique_ptr<AttentionRun> CompressiveAttention::Start() const {
  return std::make_unique<CompressiveRun>(*this);
}

double CompressiveAttention::Cost(int64_t rows, int64_t tokens) const {
  const int64_t rate = compression_.stride(), groups = tokens / rate - (tokens - rows) / rate;
  return PatternAttention::Cost(rows, tokens) +
         static_cast<double>(rows * options().heads) * compression_.RowCost() +
         static_cast<double>(groups) * static_cast<double>(width_ * products_width_);
}

int64_t CompressiveAttention::TakenTogether() const {
  const double of_group = compression_.RowCost() * static_cast<double>(compression_.stride());
  return std::clamp(static_cast<int64_t>(kTaskCost / of_group), int64_t{1}, kGroups) * compression_.stride();
}

int64_t CompressiveAttention::ScratchBytes() const {
  const int64_t multiplied = Scratch::Piece((kGroups + 8) * Pitch() * SizeOf(core().type())) +
                             GemmOfActivationsScratchBytes(precision_, kGroups, width_);
  return std::max({RelativeAttention::ScratchBytes(), compression_.ScratchBytes(kGroups), multiplied});
}

void CompressiveAttention::Multiply(const LayerInput& layer, const Matrix<const float>& rows, int64_t part,
                                    int64_t parts, const Rows& products, Scratch& scratch) const {
  const DType type = core().type();
  const Rows normed{type, scratch.Take<char>((rows.rows + 8) * Pitch() * SizeOf(type)), rows.rows, width_,
                    Pitch()};
  layer.Normalize(rows, normed);
  Team member(static_cast<int>(part), static_cast<int>(parts), nullptr);
  GemmOfActivations(member, normed, layer.products(), {.out = products}, scratch);
}

// ------------------------------------------------------------------------------------ one sequence

std::vector<AttentionStage> CompressiveRun::Begin(const AttentionRows& rows) {
  const std::vector<AttentionStage> attending = PatternRun::Begin(rows);
  const CompressiveAttention& a = *attention_;
  makings_.clear();
  std::vector<AttentionStage> stages;
  for (int64_t begin = from(), end, unit = a.TakenTogether(); begin < tokens(); begin = end) {
    end = std::min(tokens(), RoundDown(begin, unit) + unit);
    AddRound(rows, {begin, end}, stages);
  }
  Add({Kind::kRelease}, 1, 0, stages);
  const int64_t rate = a.compression().stride();
  MakeRoom(std::min(kGroups, Quotient(tokens(), rate) - from() / rate), rows.layer->products().out());
  stages.insert(stages.end(), attending.begin(), attending.end());
  return stages;
}

// Rows a cache line longer than they need be: they do not meet in one cache set.
void CompressiveRun::MakeRoom(int64_t groups, int64_t columns) {
  const DType type = attention_->core().type();
  const auto line = [](DType of) { return static_cast<int64_t>(kAlignment) / SizeOf(of); };
  const int64_t width = attention_->width(), pitch = width + line(DType::kF32),
                products_pitch = columns + line(type),
                bytes = Scratch::Piece(groups * pitch * SizeOf(DType::kF32));
  memory_ = Buffer::Lasting(bytes + groups * products_pitch * SizeOf(type));
  compressed_ = {memory_.as<float>(), groups, width, pitch};
  products_ = {type, memory_.as<char>() + bytes, groups, columns, products_pitch};
}

void CompressiveRun::Add(const Making& making, int64_t tasks, double cost,
                         std::vector<AttentionStage>& stages) {
  makings_.push_back(making);
  stages.push_back({tasks, cost});
}

void CompressiveRun::AddRound(const AttentionRows& rows, Range tokens, std::vector<AttentionStage>& stages) {
  const CompressiveAttention& a = *attention_;
  const int heads = a.options().heads;
  Add({Kind::kFold, tokens}, heads, static_cast<double>(tokens.size()) * a.compression().RowCost(), stages);
  const auto groups = static_cast<double>(Groups(tokens).size());
  if (groups == 0) return;
  const int64_t columns = rows.layer->products().out();
  parts_ = Quotient(columns, kPanels * 64);
  const double of_part = static_cast<double>(a.width()) * static_cast<double>(Quotient(columns, parts_));
  Add({Kind::kMultiply, tokens}, parts_, groups * of_part, stages);
  Add({Kind::kWrite, tokens}, heads, groups * kMoved * 2 * static_cast<double>(a.core().head_dim()), stages);
}

void CompressiveRun::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  if (stage >= std::ssize(makings_))
    return PatternRun::Do(rows, stage - static_cast<int>(std::ssize(makings_)), task, scratch);
  const auto& [kind, tokens] = makings_[stage];
  const Range groups = Groups(tokens);
  switch (kind) {
    case Kind::kFold:
      return Fold(rows, tokens, static_cast<int>(task), scratch);
    case Kind::kMultiply:
      return attention_->Multiply(*rows.layer, compressed_.Rows(0, groups.size()), task, parts_,
                                  products_.Slice(0, groups.size()), scratch);
    case Kind::kWrite:
      return Write(rows, groups, static_cast<int>(task));
    case Kind::kRelease:
      memory_ = Buffer();
  }
}

void CompressiveRun::Fold(const AttentionRows& rows, Range tokens, int head, Scratch& scratch) {
  const Compression& compression = attention_->compression();
  const int64_t dim = attention_->core().head_dim(), rate = compression.stride(),
                whole = Groups(tokens).size();
  const Matrix<const float>& input = rows.input;
  const Rows at_hand{DType::kF32, const_cast<float*>(input.data), input.rows, input.cols, input.stride};
  const Matrix<float> groups = compressed_.Cols(head * dim, dim);
  float* open = open_.as<float>() + head * dim;
  if (tokens.begin % rate > 0) std::copy_n(open, dim, groups.data);
  compression.Fold(head, tokens.begin, at_hand.Slice(tokens.begin - from(), tokens.size()), groups, scratch);
  if (tokens.end % rate > 0) std::copy_n(groups.row(whole), dim, open);
  compression.Finish(tokens.begin / rate, tokens.end, groups.Rows(0, whole));
}

void CompressiveRun::Write(const AttentionRows& rows, Range groups, int head) {
  const int64_t dim = attention_->core().head_dim();
  const auto product = [&](int p) {
    return products_.Slice(0, groups.size()).Cols(rows.layer->products().offset(p) + head * dim, dim);
  };
  Track(head, kCompressed, 0).Write(groups.begin, product(kKeys), product(kValues));
}

void CompressiveRun::Archive(StateArchive& archive) {
  PatternRun::Archive(archive);
  if (archive.measuring() || tokens() % attention_->compression().stride() > 0)
    archive.Bytes(open_, static_cast<int64_t>(open_.size()));
}

// ----------------------------------------------------------------------------------------- the options

Options ReadOptions(JsonFields& fields) {
  Options options;
  options.segment = fields.RequiredInt("segment", 1, kMostRows);
  options.memory = fields.RequiredInt("memory", 0, kMostRows);
  options.compressed = fields.RequiredInt("compressed_memory", 0, kMostRows);
  options.rate = fields.RequiredInt("rate", 1, kMostRows);
  if (options.memory % options.segment != 0)
    fields.Fail(Cat("memory: ", options.memory, " is no multiple of segment: ", options.segment));
  if (options.segment % options.rate != 0)
    fields.Fail(Cat("rate: ", options.rate, " does not divide segment: ", options.segment));
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewCompressiveAttention(const AttentionSetting& setting,
                                                                   JsonFields& fields,
                                                                   const WeightScope& scope) {
  PatternOptions heads = PlainHeads(setting, fields);
  const Options options = ReadOptions(fields);
  const Compression::Kind kind = Compression::ReadKind(fields);
  const std::string what = Cat("segment: ", options.segment, ", memory: ", options.memory,
                               ", compressed_memory: ", options.compressed);
  const RelativeOptions relative = ReadRelativeOptions(
      setting, heads, what, options.segment + options.memory + options.compressed, fields);
  RETURN_IF_ERROR(fields.Finish());
  const auto pattern = std::make_shared<MemoryPattern>(options);
  heads.patterns = {pattern};
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadQueriesKeysValues(setting, heads, scope));
  ASSIGN_OR_RETURN(RelativePositions positions, RelativePositions::Load(setting, heads, relative, scope));
  ASSIGN_OR_RETURN(Compression compression,
                   Compression::Load(setting, kind, options.rate, scope / "compress"));
  Parts parts{pattern, std::move(products), std::move(positions), std::move(compression)};
  return std::make_unique<CompressiveAttention>(setting, heads, std::move(parts));
}

}  // namespace heed
