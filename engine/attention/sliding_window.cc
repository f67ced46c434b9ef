// "sliding_window": softmax(Q K' / sqrt(head_dim)) V over a band of keys (Longformer, Beltagy et al. 2020).
//   decoder: token i sees i - dilation * t, 0 <= t < window
//   encoder: token i sees i + dilation * t, |t| <= window / 2, and every global token, once;
//            the rows of global tokens are softmax(Qg Kg' / sqrt(head_dim)) Vg over all tokens instead
// Options: window; dilation (1), or a list with one per head; global_tokens (none): positions, encoder only.
// Tensors: q, k, v; with global tokens also q_global, k_global, v_global. With these a request may name
// global tokens of its own, which take the place of the file's.
//
// The positions of one residue modulo the dilation, a track, only see each other: a track is a sequence with
// a plain window. Global tokens are kept a second time, for all rows to see.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "engine/attention/pattern_attention.h"
#include "engine/base/round.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kFar = int64_t{1} << 30;
constexpr int64_t kMostDilation = 1 << 12;  // a head keeps so many tracks
constexpr int64_t kMostGlobalTokens = 1 << 12;
constexpr int64_t kNoneGiven = -1;        // instead of a number of global tokens: the file's are
enum { kQ, kK, kV, kGlobalK, kGlobalV };  // the products; the rows of global tokens have Qg for Q

struct Options : PatternOptions {
  Band band;                           // of a track's rows
  std::vector<int64_t> dilations;      // one a head
  std::vector<int64_t> global_tokens;  // the file's, ascending
  bool has_globals = false;            // the file has the tensors for them
};

// What an encoder's row sees: its band, and global tokens, which sets()[1] keeps. Nothing comes after the
// rows of an encoder, so that nothing is forgotten.
class BandWithGlobals : public BandPattern {
 public:
  BandWithGlobals(Band band, int64_t dilation, const std::vector<int64_t>& globals)
      : BandPattern(band, dilation), globals_(std::ssize(globals)) {
    if (globals_ > 0) sets_.emplace_back().listed = globals;
  }
  Range Sees(int set, int64_t position) const override {
    return set == 0 ? BandPattern::Sees(0, position) : Range{0, kUnlimited};
  }
  int64_t KeptFrom(int, int64_t) const override { return 0; }
  int64_t MostKept(int, int64_t places) const override { return places; }
  double Pairs(int64_t rows, int64_t tokens) const override {
    return BandPattern::Pairs(rows, tokens) + static_cast<double>(rows) * static_cast<double>(globals_);
  }

 private:
  int64_t globals_;
};

// Of each head; those of one dilation share theirs.
Patterns EncoderPatterns(Band band, const std::vector<int64_t>& dilations,
                         const std::vector<int64_t>& globals) {
  std::map<int64_t, std::shared_ptr<const Pattern>> made;
  Patterns patterns;
  for (int64_t dilation : dilations) {
    std::shared_ptr<const Pattern>& pattern = made[dilation];
    if (!pattern) pattern = std::make_shared<BandWithGlobals>(band, dilation, globals);
    patterns.push_back(pattern);
  }
  return patterns;
}

class SlidingWindowAttention : public PatternAttention {
 public:
  SlidingWindowAttention(const AttentionSetting& setting, const Options& options,
                         std::vector<Product> products)
      : PatternAttention(setting, options, std::move(products)),
        band_(options.band),
        dilations_(options.dilations),
        global_tokens_(options.global_tokens) {
    if (options.has_globals) labels_ = {RowLabel::kGlobal, kMostGlobalTokens};
  }

  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override;
  double Cost(int64_t rows, int64_t tokens) const override;
  int64_t LabelledStateBytes(int64_t tokens, int64_t labelled) const override;
  double LabelledCost(int64_t tokens, int64_t labelled) const override;
  int64_t ScratchBytes() const override;
  void Prepare(const AttentionRows& rows, const Tile& tile, SoftmaxQueries& queries,
               std::vector<KeySource>& sources, std::vector<std::unique_ptr<ScoreBias>>& biases,
               Scratch& scratch) const override;

  // With these global tokens instead of the file's.
  Patterns PatternsWith(const std::vector<int64_t>& globals) const {
    return EncoderPatterns(band_, dilations_, globals);
  }
  // The bytes of the lists in them.
  int64_t ListBytes(int64_t globals) const {
    const std::set<int64_t> lists(dilations_.begin(), dilations_.end());
    return std::ssize(lists) * globals * static_cast<int64_t>(sizeof(int64_t));
  }

 private:
  // How many of the file's are among the first `tokens`.
  int64_t GlobalsOf(int64_t tokens) const {
    return std::ranges::lower_bound(global_tokens_, tokens) - global_tokens_.begin();
  }
  int64_t BytesWith(const Patterns& patterns, int64_t globals, int64_t tokens) const;

  Band band_;
  std::vector<int64_t> dilations_;
  std::vector<int64_t> global_tokens_;  // the file's
};

// Masks the global tokens that the rows of a tile see in their band already.
class OutsideTheBand : public ScoreBias {
 public:
  // The band in positions; all rows have the residue of the first modulo `dilation`.
  OutsideTheBand(const std::vector<int64_t>& globals, Band band, int64_t dilation,
                 const SoftmaxQueries& queries, Scratch& scratch);
  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override;
  static int64_t ScratchBytes(int64_t globals) {
    return Scratch::Piece(globals * SizeOf(DType::kF32)) +
           Scratch::Piece(SoftmaxCore::kTile * sizeof(Range)) +
           Scratch::Piece(SoftmaxCore::kTile * kKeyBlock * SizeOf(DType::kF32));
  }

 private:
  float* masks_;   // of each global token, for rows whose band reaches it
  Range* ranges_;  // of each row, the global tokens that its band reaches
  float* values_;
};

OutsideTheBand::OutsideTheBand(const std::vector<int64_t>& globals, Band band, int64_t dilation,
                               const SoftmaxQueries& queries, Scratch& scratch)
    : masks_(scratch.Take<float>(globals.size())),
      ranges_(scratch.Take<Range>(queries.q.rows)),
      values_(scratch.Take<float>(queries.q.rows * kKeyBlock)) {
  for (size_t g = 0; g < globals.size(); ++g)
    masks_[g] = globals[g] % dilation == queries.first % dilation ? kMasked : 0;
  const auto index = [&](int64_t position) {
    return std::ranges::lower_bound(globals, position) - globals.begin();
  };
  for (int64_t r = 0; r < queries.q.rows; ++r) {
    const Range reached = band(queries.first + r * queries.step);
    ranges_[r] = {index(reached.begin), index(reached.end)};
  }
}

void OutsideTheBand::Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const {
  for (size_t r = 0; r < rows.size(); ++r) {
    const Range& reached = ranges_[block.first_row + static_cast<int64_t>(r)];
    float* values = values_ + r * kKeyBlock;
    std::fill(values + block.begin, values + block.end, 0.0f);
    const int64_t begin = std::max(reached.begin, block.base + block.begin),
                  end = std::min(reached.end, block.base + block.end);
    if (begin < end) std::copy(masks_ + begin, masks_ + end, values + (begin - block.base));
    rows[r].bias = values;
    rows[r].bias_offset = 0;
  }
}

// Where there may be global tokens. Then a sequence comes whole, and with it which they are. After its band
// their rows are made anew, in two more stages: all keys and values for them are taken into pages, and they
// attend from these.
class Run : public PatternRun {
 public:
  explicit Run(const SlidingWindowAttention& attention)
      : PatternRun(attention),
        attention_(&attention),
        heads_(attention.options().heads,
               KeyValuePages(attention.core().type(), attention.core().head_dim())) {}
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override;

 private:
  // All of them, the file's beyond the sequence too.
  std::span<const int64_t> GlobalTokens() const;
  void ArchiveGiven(StateArchive& archive);
  Rows Head(const Rows& rows, int64_t head) const {
    const int64_t dim = attention_->core().head_dim();
    return rows.Cols(head * dim, dim);
  }
  void Take(const AttentionRows& rows, int64_t head, int64_t first);
  void AttendFromGlobals(const AttentionRows& rows, int64_t head, Range globals, Scratch& scratch) const;

  const SlidingWindowAttention* attention_;
  std::vector<KeyValuePages> heads_;  // for the rows of global tokens; no later row reads them
  int64_t given_ = kNoneGiven;        // global tokens, by the request
  // Of the rows at hand.
  int band_stages_ = 0;
  int64_t globals_ = 0;    // among them
  int64_t tile_rows_ = 1;  // of those, at most
};

std::span<const int64_t> Run::GlobalTokens() const {
  const std::vector<TrackSet>& sets = pattern(0).sets();
  return sets.size() == 1 ? std::span<const int64_t>() : sets[1].listed;
}

std::vector<AttentionStage> Run::Begin(const AttentionRows& rows) {
  if (rows.labels != nullptr) {
    std::vector<int64_t> given;
    for (int64_t row = 0; row < rows.count; ++row) {
      if (rows.labels[row] != 0) given.push_back(row);
    }
    given_ = std::ssize(given);
    Follow(attention_->PatternsWith(given));
  }
  std::vector<AttentionStage> stages = PatternRun::Begin(rows);
  band_stages_ = static_cast<int>(stages.size());
  globals_ = std::ranges::lower_bound(GlobalTokens(), rows.count) - GlobalTokens().begin();
  if (globals_ == 0) return stages;
  const int64_t heads = std::ssize(heads_), dim = attention_->core().head_dim();
  for (KeyValuePages& pages : heads_) pages.Grow(rows.count);
  const double row_cost = 2 * static_cast<double>(rows.count * dim);
  tile_rows_ = std::clamp<int64_t>(static_cast<int64_t>(kTaskCost / row_cost), 1, SoftmaxCore::kTile);
  stages.push_back({heads * Quotient(rows.count, kTakenRows),
                    kMoved * static_cast<double>(std::min(rows.count, kTakenRows) * dim)});
  stages.push_back({heads * Quotient(globals_, tile_rows_),
                    row_cost * static_cast<double>(std::min(globals_, tile_rows_))});
  return stages;
}

void Run::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  if (stage < band_stages_) return PatternRun::Do(rows, stage, task, scratch);
  if (stage == band_stages_) {
    const int64_t cuts = Quotient(rows.count, kTakenRows);
    return Take(rows, task / cuts, task % cuts * kTakenRows);
  }
  const int64_t tiles = Quotient(globals_, tile_rows_), first = task % tiles * tile_rows_;
  AttendFromGlobals(rows, task / tiles, {first, std::min(globals_, first + tile_rows_)}, scratch);
}

void Run::Take(const AttentionRows& rows, int64_t head, int64_t first) {
  const int64_t count = std::min(kTakenRows, rows.count - first);
  heads_[head].Write(first, Head(rows.products[kGlobalK], head).Slice(first, count),
                     Head(rows.products[kGlobalV], head).Slice(first, count));
}

void Run::AttendFromGlobals(const AttentionRows& rows, int64_t head, Range globals, Scratch& scratch) const {
  const Rows from = Head(rows.products[kQ], head), to = Head(rows.out, head);
  const int64_t* positions = GlobalTokens().data() + globals.begin;
  const int64_t count = globals.end - globals.begin, bytes = from.cols * SizeOf(from.dtype);
  SoftmaxQueries queries;
  queries.q = {from.dtype, scratch.Take<char>(count * bytes), count, from.cols, from.cols};
  queries.out = {from.dtype, scratch.Take<char>(count * bytes), count, from.cols, from.cols};
  for (int64_t i = 0; i < count; ++i) std::memcpy(queries.q.at(i), from.at(positions[i]), bytes);
  if (rows.weights != nullptr) {
    queries.weights = [&](int64_t row, int) { return rows.Weights(static_cast<int>(head), positions[row]); };
  }
  const Band everything;
  const KeySource all{.pages = &heads_[head], .sees = everything};
  attention_->core().Attend(queries, {&all, 1}, scratch);
  for (int64_t i = 0; i < count; ++i) std::memcpy(to.at(positions[i]), queries.out.at(i), bytes);
}

// Which they are, if the request has said so.
void Run::ArchiveGiven(StateArchive& archive) {
  archive.Number(given_, kNoneGiven, kMostGlobalTokens);
  if (given_ == kNoneGiven || !archive.status().ok()) return;
  std::vector<int64_t> tokens(GlobalTokens().begin(), GlobalTokens().end());
  if (archive.restoring()) tokens.resize(given_);
  archive.Bytes(tokens.data(), archive.measuring() ? attention_->ListBytes(given_)
                                                   : given_ * static_cast<int64_t>(sizeof(int64_t)));
  if (!archive.restoring() || !archive.status().ok()) return;
  const bool ascend = std::ranges::adjacent_find(tokens, std::greater_equal<>()) == tokens.end();
  if (given_ > 0 && (!ascend || tokens.front() < 0 || tokens.back() >= kFar))
    return archive.Fail(Invalid("the state's global tokens are not ascending positions"));
  Follow(attention_->PatternsWith(tokens));
}

void Run::Archive(StateArchive& archive) {
  ArchiveGiven(archive);
  PatternRun::Archive(archive);
  if (!archive.measuring()) return;
  for (KeyValuePages& pages : heads_) pages.Archive(archive, 0, pages.end());
}

std::unique_ptr<AttentionRun> SlidingWindowAttention::Start() const {
  if (labels().kind == RowLabel::kNone) return PatternAttention::Start();
  return std::make_unique<Run>(*this);
}

void SlidingWindowAttention::Prepare(const AttentionRows&, const Tile& tile, SoftmaxQueries& queries,
                                     std::vector<KeySource>& sources,
                                     std::vector<std::unique_ptr<ScoreBias>>& biases,
                                     Scratch& scratch) const {
  if (sources.size() == 1) return;
  const int64_t dilation = dilations_[tile.head];
  const Band reach{.left = band_.left * dilation, .right = band_.right * dilation};
  const std::vector<int64_t>& globals = tile.pattern->sets()[1].listed;
  biases.push_back(std::make_unique<OutsideTheBand>(globals, reach, dilation, queries, scratch));
  sources[1].bias = biases.back().get();
}

// Of the patterns, with so many global tokens among the first `tokens`.
int64_t SlidingWindowAttention::BytesWith(const Patterns& patterns, int64_t globals, int64_t tokens) const {
  const int64_t counter = labels().kind == RowLabel::kNone ? 0 : sizeof(int64_t);
  const int64_t from_globals = KeyValuePages::Bytes(core().type(), core().head_dim(), 0, tokens);
  return KeptBytes(patterns, tokens) + counter + (globals == 0 ? 0 : options().heads * from_globals);
}

int64_t SlidingWindowAttention::StateBytes(int64_t tokens) const {
  return BytesWith(options().patterns, GlobalsOf(tokens), tokens);
}

int64_t SlidingWindowAttention::LabelledStateBytes(int64_t tokens, int64_t labelled) const {
  std::vector<int64_t> globals(labelled);
  std::iota(globals.begin(), globals.end(), 0);
  return BytesWith(PatternsWith(globals), labelled, tokens) + ListBytes(labelled);
}

double SlidingWindowAttention::Cost(int64_t rows, int64_t tokens) const {
  const double from_globals = static_cast<double>(GlobalsOf(tokens)) * static_cast<double>(tokens);
  return PatternAttention::Cost(rows, tokens) + 2 * from_globals * static_cast<double>(out_width());
}

// All see the labelled ones instead of the file's, and the labelled ones see all.
double SlidingWindowAttention::LabelledCost(int64_t tokens, int64_t labelled) const {
  const double pairs =
      static_cast<double>(2 * labelled - std::ssize(global_tokens_)) * static_cast<double>(tokens);
  return PatternAttention::Cost(tokens, tokens) + 2 * pairs * static_cast<double>(out_width());
}

// The band's, or the global tokens' queries and results.
int64_t SlidingWindowAttention::ScratchBytes() const {
  const int64_t band = PatternAttention::ScratchBytes(), globals = labels().most;
  if (globals == 0) return band;
  const int64_t rows = Scratch::Piece(SoftmaxCore::kTile * core().head_dim() * SizeOf(core().type()));
  return band + std::max(OutsideTheBand::ScratchBytes(globals), 2 * rows);
}

// ------------------------------------------------------------------------------------------- the options

// One for all heads, or one for each.
std::vector<int64_t> ReadDilations(JsonFields& fields, int heads) {
  if (!fields.Raw("dilation").is_array())
    return std::vector<int64_t>(heads, fields.Int("dilation", 1, 1, kMostDilation));
  std::vector<int64_t> dilations = fields.Ints("dilation", heads, heads, 1, kMostDilation);
  dilations.resize(heads, 1);
  return dilations;
}

// A position named twice is still one token.
std::vector<int64_t> ReadGlobalTokens(JsonFields& fields) {
  const std::vector<int64_t> named = fields.Ints("global_tokens", 0, kMostGlobalTokens, 0, kFar);
  const std::set<int64_t> tokens(named.begin(), named.end());
  return {tokens.begin(), tokens.end()};
}

absl::StatusOr<Options> ReadOptions(const AttentionSetting& setting, JsonFields& fields) {
  Options options{PlainHeads(setting, fields)};
  const int64_t window = fields.RequiredInt("window", setting.causal ? 1 : 0, kFar);
  options.band = WindowBand(window, setting.causal);
  options.dilations = ReadDilations(fields, setting.num_heads);
  options.global_tokens = ReadGlobalTokens(fields);
  if (!setting.causal && window % 2 != 0) {
    fields.Fail(Cat("window: ", window, " is odd; an encoder sees half of it to either side"));
  }
  if (setting.causal && !options.global_tokens.empty()) {
    fields.Fail("global_tokens: a global token sees all of the text, which no token of a decoder may");
  }
  if (setting.cross) fields.Fail("a band needs one text: cross-attention joins two");
  RETURN_IF_ERROR(fields.Finish());
  if (!setting.causal)
    options.patterns = EncoderPatterns(options.band, options.dilations, options.global_tokens);
  for (int64_t dilation : options.dilations) {
    if (setting.causal) options.patterns.push_back(std::make_shared<BandPattern>(options.band, dilation));
  }
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewSlidingWindowAttention(const AttentionSetting& setting,
                                                                     JsonFields& fields,
                                                                     const WeightScope& scope) {
  ASSIGN_OR_RETURN(Options options, ReadOptions(setting, fields));
  std::vector<std::string_view> names = {"q", "k", "v"};
  options.has_globals = !options.global_tokens.empty() || (!setting.causal && scope.Has("q_global.weight"));
  if (options.has_globals) names.insert(names.end(), {"k_global", "v_global"});
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadProducts(scope, names, setting));
  if (options.has_globals) {
    ASSIGN_OR_RETURN(Product q, LoadProduct(scope, "q_global", setting.width, setting.width));
    products[kQ].apart = {options.global_tokens, q.weight, q.bias};
  }
  return std::make_unique<SlidingWindowAttention>(setting, options, std::move(products));
}

}  // namespace heed
