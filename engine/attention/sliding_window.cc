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
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "engine/attention/global_tokens.h"
#include "engine/attention/pattern_attention.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kFar = int64_t{1} << 30;
constexpr int64_t kMostDilation = 1 << 12;  // a head keeps so many tracks
constexpr int64_t kMostGlobalTokens = 1 << 12;

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
  int64_t BytesWith(const Patterns& patterns, int64_t tokens) const;

  Band band_;
  std::vector<int64_t> dilations_;
  std::vector<int64_t> global_tokens_;  // the file's
};

std::unique_ptr<AttentionRun> SlidingWindowAttention::Start() const {
  if (labels().kind == RowLabel::kNone) return PatternAttention::Start();
  return std::make_unique<GlobalTokensRun>(
      *this, [this](const std::vector<int64_t>& globals) { return PatternsWith(globals); });
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

// With these patterns; where a request may name global tokens, their number too.
int64_t SlidingWindowAttention::BytesWith(const Patterns& patterns, int64_t tokens) const {
  return KeptBytes(patterns, tokens) + (labels().kind == RowLabel::kNone ? 0 : sizeof(int64_t));
}

int64_t SlidingWindowAttention::StateBytes(int64_t tokens) const {
  return BytesWith(options().patterns, tokens);
}

int64_t SlidingWindowAttention::LabelledStateBytes(int64_t tokens, int64_t labelled) const {
  std::vector<int64_t> globals(labelled);
  std::iota(globals.begin(), globals.end(), 0);
  return BytesWith(PatternsWith(globals), tokens) + ListBytes(labelled);
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
    products[GlobalTokensRun::kQ].apart = {options.global_tokens, q.weight, q.bias};
  }
  return std::make_unique<SlidingWindowAttention>(setting, options, std::move(products));
}

}  // namespace heed
