// "sliding_window": softmax(Q K' / sqrt(head_dim)) V over a band of keys (Longformer, Beltagy et al. 2020).
//   decoder: token i sees i - dilation * t, 0 <= t < window
//   encoder: token i sees i + dilation * t, |t| <= window / 2, and every global token, once;
//            the rows of global tokens are softmax(Qg Kg' / sqrt(head_dim)) Vg over all tokens instead
// Options: window; dilation (1), or a list with one per head; global_tokens (none): positions, encoder only.
// Tensors: q, k, v; with global tokens also q_global, k_global, v_global.
//
// The positions of one residue modulo the dilation, a track, only see each other: a track is a sequence with
// a plain window, read and written in place with a stride.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/attention/key_value_pages.h"
#include "engine/attention/softmax_core.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kFar = int64_t{1} << 30;
constexpr int64_t kMostTokens = int64_t{1} << 40;
constexpr int64_t kMostDilation = 1 << 12;  // a head keeps so many tracks
constexpr int64_t kMostGlobalTokens = 1 << 12;
enum { kQ, kK, kV, kGlobalK, kGlobalV };  // the products; the rows of global tokens have Qg for Q

struct Options {
  int heads = 1;
  int64_t head_dim = 0;
  bool causal = false;
  int64_t window = 0;
  std::vector<int64_t> dilations;      // one a head
  std::vector<int64_t> global_tokens;  // ascending

  // What a row of a track sees to either side of itself.
  int64_t left() const { return causal ? window - 1 : window / 2; }
  int64_t right() const { return causal ? 0 : window / 2; }
};

class SlidingWindowAttention : public Attention {
 public:
  SlidingWindowAttention(const AttentionSetting& setting, Options options, std::vector<Product> products);

  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override;
  double Cost(int64_t n) const override;
  int64_t ScratchBytes(int64_t rows) const override;

  const Options& options() const { return options_; }
  const SoftmaxCore& core() const { return core_; }
  // The first place of a track that is held when it has `places`.
  int64_t KeptFrom(int64_t places) const;

 private:
  int64_t GlobalsOf(int64_t tokens) const;  // how many of the global tokens are among the first `tokens`
  int64_t Bytes(int64_t places) const;      // of the pages of one track, all held
  int64_t DecoderHeadBytes(int64_t dilation, int64_t tokens) const;
  int64_t EncoderHeadBytes(int64_t dilation, int64_t tokens) const;

  Options options_;
  SoftmaxCore core_;
};

// The rows of a chunk that belong to one track.
struct Track {
  Track(const AttentionRows& rows, int64_t dilation, int64_t residue)
      : dilation(dilation), residue(residue), row((residue + dilation - rows.first % dilation) % dilation) {
    if (row < rows.count) count = (rows.count - row + dilation - 1) / dilation;
    first = (rows.first + row) / dilation;
  }
  Rows Of(const Rows& all) const { return {all.dtype, all.at(row), count, all.cols, all.stride * dilation}; }

  int64_t dilation, residue;
  int64_t row;        // its first row in the chunk
  int64_t count = 0;  // of its rows
  int64_t first;      // its first row's place in the track
};

// Masks the global tokens that a row of a track sees in its band already.
class OutsideTheBand : public ScoreBias {
 public:
  OutsideTheBand(const Options& options, const Track& track, Scratch& scratch)
      : options_(options), track_(track), values_(scratch.Take<float>(SoftmaxCore::kTile * kKeyBlock)) {}
  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override {
    const int64_t known = std::ssize(options_.global_tokens);
    for (size_t r = 0; r < rows.size(); ++r) {
      float* values = values_ + r * kKeyBlock;
      for (int c = block.begin; c < block.end; ++c) {
        values[c] = block.base + c < known && InBand(block.positions[r], block.base + c) ? kMasked : 0;
      }
      rows[r].bias = values;
      rows[r].bias_offset = 0;
    }
  }

 private:
  bool InBand(int64_t place, int64_t global) const {
    const int64_t position = options_.global_tokens[global];
    if (position % track_.dilation != track_.residue) return false;
    const int64_t gap = place - position / track_.dilation;
    return gap <= options_.left() && -gap <= options_.right();
  }

  const Options& options_;
  const Track& track_;
  float* values_;
};

class Run : public AttentionRun {
 public:
  explicit Run(const SlidingWindowAttention& attention);
  void Extend(const AttentionRows& rows, int task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override;
  int64_t tokens() const override;

 private:
  using Tracks = std::vector<KeyValuePages>;  // one head's

  KeyValuePages NoPages() const { return {attention_->core().type(), options().head_dim}; }
  const Options& options() const { return attention_->options(); }
  Rows Head(const Rows& rows, int head) const {
    return rows.Cols(head * options().head_dim, options().head_dim);
  }
  std::vector<int64_t> Globals(const AttentionRows& rows) const;
  void AttendBand(const AttentionRows& rows, int head, const KeyValuePages& globals, Scratch& scratch);
  void AttendFromGlobals(const AttentionRows& rows, int head, const std::vector<int64_t>& globals,
                         Scratch& scratch) const;

  const SlidingWindowAttention* attention_;
  std::vector<Tracks> heads_;
};

Run::Run(const SlidingWindowAttention& attention) : attention_(&attention) {
  for (int64_t dilation : options().dilations) heads_.emplace_back(dilation, NoPages());
}

int64_t Run::tokens() const {
  int64_t sum = 0;
  for (const KeyValuePages& track : heads_.front()) sum += track.end();
  return sum;
}

void Run::Extend(const AttentionRows& rows, int head, Scratch& scratch) {
  const std::vector<int64_t> globals = Globals(rows);
  KeyValuePages global_keys = NoPages();
  for (int64_t row : globals) {
    global_keys.Append(Head(rows.products[kK], head).Slice(row, 1),
                       Head(rows.products[kV], head).Slice(row, 1));
  }
  AttendBand(rows, head, global_keys, scratch);
  if (!globals.empty()) AttendFromGlobals(rows, head, globals, scratch);
}

// The rows of global tokens; encoders have all rows at once.
std::vector<int64_t> Run::Globals(const AttentionRows& rows) const {
  std::vector<int64_t> globals;
  for (int64_t position : options().global_tokens) {
    if (position < rows.count) globals.push_back(position);
  }
  return globals;
}

void Run::AttendBand(const AttentionRows& rows, int head, const KeyValuePages& globals, Scratch& scratch) {
  const int64_t dilation = options().dilations[head];
  for (int64_t residue = 0; residue < dilation; ++residue) {
    const Track track(rows, dilation, residue);
    if (track.count == 0) continue;
    KeyValuePages& pages = heads_[head][residue];
    pages.Append(track.Of(Head(rows.products[kK], head)), track.Of(Head(rows.products[kV], head)));
    SoftmaxQueries queries;
    queries.q = track.Of(Head(rows.products[kQ], head));
    queries.out = track.Of(Head(rows.out, head));
    queries.first = track.first;
    const ScratchFrame frame(scratch);
    const OutsideTheBand outside(options(), track, scratch);
    const KeySource band{.pages = &pages, .left = options().left(), .right = options().right()};
    const KeySource sources[] = {band, {.pages = &globals, .bias = &outside}};
    attention_->core().Attend(queries, std::span(sources, globals.end() > 0 ? 2 : 1), scratch);
    pages.DropBefore(attention_->KeptFrom(pages.end()));
  }
}

void Run::AttendFromGlobals(const AttentionRows& rows, int head, const std::vector<int64_t>& globals,
                            Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  KeyValuePages pages = NoPages();
  pages.Append(Head(rows.products[kGlobalK], head), Head(rows.products[kGlobalV], head));
  const Rows from = Head(rows.products[kQ], head), to = Head(rows.out, head);
  const int64_t count = std::ssize(globals), bytes = options().head_dim * SizeOf(from.dtype);
  SoftmaxQueries queries;
  queries.q = {from.dtype, scratch.Take<char>(count * bytes), count, from.cols, from.cols};
  queries.out = {from.dtype, scratch.Take<char>(count * bytes), count, from.cols, from.cols};
  for (int64_t i = 0; i < count; ++i) std::memcpy(queries.q.at(i), from.at(globals[i]), bytes);
  const KeySource all{.pages = &pages};
  attention_->core().Attend(queries, {&all, 1}, scratch);
  for (int64_t i = 0; i < count; ++i) std::memcpy(to.at(globals[i]), queries.out.at(i), bytes);
}

void Run::Archive(StateArchive& archive) {
  int64_t tokens = this->tokens();
  archive.Number(tokens, 0, kMostTokens);
  for (Tracks& tracks : heads_) {
    const int64_t dilation = std::ssize(tracks);
    for (int64_t residue = 0; residue < dilation; ++residue) {
      const int64_t places = (tokens - residue + dilation - 1) / dilation;
      tracks[residue].Archive(archive, attention_->KeptFrom(places), places);
    }
  }
}

SlidingWindowAttention::SlidingWindowAttention(const AttentionSetting& setting, Options options,
                                               std::vector<Product> products)
    : options_(std::move(options)),
      core_(ActivationType(setting.precision), options_.head_dim,
            1 / std::sqrt(static_cast<double>(options_.head_dim))) {
  products_ = std::move(products);
  out_width_ = setting.width;
  tasks_ = options_.heads;
  decode_ = options_.causal ? DecodeClass::kExact : DecodeClass::kNone;
}

std::unique_ptr<AttentionRun> SlidingWindowAttention::Start() const { return std::make_unique<Run>(*this); }

// Nothing comes after the rows of an encoder: what can be dropped is.
int64_t SlidingWindowAttention::KeptFrom(int64_t places) const {
  return options_.causal ? WindowBegin(options_.window, places) : places / kGrid * kGrid;
}

int64_t SlidingWindowAttention::GlobalsOf(int64_t tokens) const {
  const std::vector<int64_t>& globals = options_.global_tokens;
  return std::ranges::lower_bound(globals, tokens) - globals.begin();
}

int64_t SlidingWindowAttention::Bytes(int64_t places) const {
  return KeyValuePages::Bytes(core_.type(), options_.head_dim, 0, places);
}

// Of the tracks, tokens % dilation have one place more than the others.
int64_t SlidingWindowAttention::DecoderHeadBytes(int64_t dilation, int64_t tokens) const {
  const int64_t places = tokens / dilation, longer = tokens % dilation;
  return longer * Bytes(WindowKeeps(options_.window, places + 1)) +
         (dilation - longer) * Bytes(WindowKeeps(options_.window, places));
}

// The tracks come one after another, and of each that has attended a page at most is left. Beside those that
// are left a head holds the keys of global tokens and, for the rows of these, all keys once more.
int64_t SlidingWindowAttention::EncoderHeadBytes(int64_t dilation, int64_t tokens) const {
  const int64_t tracks = std::min(tokens, dilation), longest = (tokens + dilation - 1) / dilation;
  const int64_t band = Bytes(longest) + std::max<int64_t>(0, tracks - 1) * Bytes(1);
  const int64_t globals = GlobalsOf(tokens);
  return globals == 0 ? band : Bytes(globals) + std::max(band, tracks * Bytes(1) + Bytes(tokens));
}

int64_t SlidingWindowAttention::StateBytes(int64_t tokens) const {
  int64_t sum = sizeof(int64_t);
  for (int64_t dilation : options_.dilations)
    sum += options_.causal ? DecoderHeadBytes(dilation, tokens) : EncoderHeadBytes(dilation, tokens);
  return sum;
}

double SlidingWindowAttention::Cost(int64_t n) const {
  const double globals = 2.0 * static_cast<double>(GlobalsOf(n) * n);
  double pairs = 0;
  for (int64_t dilation : options_.dilations) {
    const double places = static_cast<double>(n) / dilation;
    const double left = std::min<double>(places, options_.left()),
                 right = std::min<double>(places, options_.right());
    pairs +=
        globals + dilation * (places * (1 + left + right) - (left * (left + 1) + right * (right + 1)) / 2);
  }
  return 2 * pairs * options_.head_dim;
}

// The band's, or the global tokens' queries and results.
int64_t SlidingWindowAttention::ScratchBytes(int64_t rows) const {
  const int64_t globals = std::min(rows, std::ssize(options_.global_tokens));
  const int64_t queries = Scratch::Piece(globals * options_.head_dim * SizeOf(core_.type()));
  const int64_t masks = SoftmaxCore::kTile * kKeyBlock * SizeOf(DType::kF32);
  return core_.ScratchBytes() + std::max(Scratch::Piece(masks), 2 * queries);
}

// ------------------------------------------------------------------------------------------- the options

int64_t Integer(JsonFields& fields, std::string_view key, const Json& value, int64_t min, int64_t max) {
  if (value.is_number_integer() && value >= min && value <= max) return value.get<int64_t>();
  fields.Fail(Cat(key, ": ", Shown(value), " is no integer from ", min, " to ", max));
  return min;
}

std::vector<int64_t> ReadDilations(JsonFields& fields, int heads) {
  const Json& value = fields.Raw("dilation");
  if (!value.is_array()) {
    const int64_t dilation = value.is_null() ? 1 : Integer(fields, "dilation", value, 1, kMostDilation);
    return std::vector<int64_t>(heads, dilation);
  }
  if (std::ssize(value) != heads) {
    fields.Fail(Cat("dilation: ", value.size(), " numbers for ", heads, " heads"));
    return std::vector<int64_t>(heads, 1);
  }
  std::vector<int64_t> dilations;
  for (const Json& one : value) dilations.push_back(Integer(fields, "dilation", one, 1, kMostDilation));
  return dilations;
}

std::vector<int64_t> ReadGlobalTokens(JsonFields& fields) {
  const Json& value = fields.Raw("global_tokens");
  if (value.is_null()) return {};
  if (!value.is_array() || std::ssize(value) > kMostGlobalTokens) {
    fields.Fail(
        Cat("global_tokens: ", Shown(value), " is no list of at most ", kMostGlobalTokens, " positions"));
    return {};
  }
  std::set<int64_t> tokens;  // a position named twice is still one token
  for (const Json& one : value) tokens.insert(Integer(fields, "global_tokens", one, 0, kFar));
  return {tokens.begin(), tokens.end()};
}

absl::StatusOr<Options> ReadOptions(const AttentionSetting& setting, JsonFields& fields) {
  Options options;
  options.heads = setting.num_heads;
  options.head_dim = HeadDim(setting, fields);
  options.causal = setting.causal;
  options.window = fields.RequiredInt("window", setting.causal ? 1 : 0, kFar);
  options.dilations = ReadDilations(fields, setting.num_heads);
  options.global_tokens = ReadGlobalTokens(fields);
  if (!setting.causal && options.window % 2 != 0) {
    fields.Fail(Cat("window: ", options.window, " is odd; an encoder sees half of it to either side"));
  }
  if (setting.causal && !options.global_tokens.empty()) {
    fields.Fail("global_tokens: a global token sees all of the text, which no token of a decoder may");
  }
  if (setting.cross) fields.Fail("a band needs one text: cross-attention joins two");
  RETURN_IF_ERROR(fields.Finish());
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewSlidingWindowAttention(const AttentionSetting& setting,
                                                                     JsonFields& fields,
                                                                     const WeightScope& scope) {
  ASSIGN_OR_RETURN(Options options, ReadOptions(setting, fields));
  std::vector<std::string_view> names = {"q", "k", "v"};
  if (!options.global_tokens.empty()) names.insert(names.end(), {"k_global", "v_global"});
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadProducts(scope, names, setting));
  if (!options.global_tokens.empty()) {
    ASSIGN_OR_RETURN(Product q, LoadProduct(scope, "q_global", setting.width, setting.width));
    products[kQ].apart = {options.global_tokens, q.weight, q.bias};
  }
  return std::make_unique<SlidingWindowAttention>(setting, std::move(options), std::move(products));
}

}  // namespace heed
