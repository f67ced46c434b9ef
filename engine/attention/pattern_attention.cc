#include "engine/attention/pattern_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/log/check.h"
#include "engine/base/round.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kPage = KeyValuePages::kPage;
constexpr int64_t kMostTokens = int64_t{1} << 40;
// Rows, counted by heads, whose parts of long key ranges are tasks of their own.
constexpr int64_t kFewRows = 16;

// Masks what lies between the runs of keys that a block's rows see.
class BetweenRuns : public ScoreBias {
 public:
  BetweenRuns(const std::vector<Range>& runs, Scratch& scratch)
      : runs_(runs), values_(scratch.Take<float>(kKeyBlock)) {}
  static int64_t ScratchBytes() { return Scratch::Piece(kKeyBlock * SizeOf(DType::kF32)); }

  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override {
    const int64_t begin = block.base + block.begin, end = block.base + block.end;
    std::fill(values_ + block.begin, values_ + block.end, kMasked);
    auto run = std::ranges::upper_bound(runs_, begin, {}, &Range::end);
    for (; run != runs_.end() && run->begin < end; ++run) {
      std::fill(values_ + (std::max(run->begin, begin) - block.base),
                values_ + (std::min(run->end, end) - block.base), 0.0f);
    }
    for (SoftmaxRow& row : rows) {
      row.bias = values_;
      row.bias_offset = 0;
    }
  }

 private:
  const std::vector<Range>& runs_;
  float* values_;
};

}  // namespace

// ----------------------------------------------------------------------------------- who sees whom

int64_t TrackSet::Places(int64_t track, int64_t positions) const {
  if (!listed.empty()) return ahead + (std::ranges::lower_bound(listed, positions) - listed.begin());
  if (apart) return positions <= track ? 0 : Quotient(positions - track, period);
  positions = std::min(positions, limit);
  return ahead + positions / period * (end - begin) +
         std::clamp<int64_t>(positions % period - begin, 0, end - begin);
}

int64_t TrackSet::Position(int64_t track, int64_t place) const {
  if (!listed.empty()) return listed[place];
  if (apart) return track + place * period;
  return place / (end - begin) * period + begin + place % (end - begin);
}

Range TrackSet::Run(int64_t position) const {
  if (!listed.empty()) {
    const auto next = std::ranges::lower_bound(listed, position);
    return next == listed.end() ? Range{kUnlimited, kUnlimited} : Range{*next, *next + 1};
  }
  if (all()) return position < limit ? Range{position, limit} : Range{kUnlimited, kUnlimited};
  const int64_t base = (position + period - end) / period * period;  // of the first period not yet over
  const int64_t first = std::max(position, base + begin);
  return first < limit ? Range{first, std::min(base + end, limit)} : Range{kUnlimited, kUnlimited};
}

int Pattern::passes() const { return 1 + std::ranges::max_element(sets_, {}, &TrackSet::pass)->pass; }

int64_t Pattern::row_period(int pass) const {
  int64_t period = 1;
  for (const TrackSet& set : sets_) {
    if (set.apart && set.pass == pass) period = set.period;
  }
  return period;
}

int64_t Pattern::KeptFrom(int, int64_t) const { return 0; }

int64_t Pattern::MostKept(int, int64_t places) const { return places; }

std::vector<RowSection> Pattern::Sections(int64_t rows, int64_t tokens) const {
  return {{.rows = {0, rows}, .keys = Pairs(1, tokens)}};
}

BandPattern::BandPattern(Band band, int64_t dilation) : band_(band) {
  sets_[0].period = sets_[0].end = dilation;
  sets_[0].apart = dilation > 1;
}

Range BandPattern::Sees(int, int64_t position) const { return band_(position / sets_[0].period); }

// Nothing comes after the rows of an encoder.
int64_t BandPattern::KeptFrom(int, int64_t places) const {
  return band_.left == kUnlimited || band_.right > 0 ? 0
                                                     : WindowBegin(band_.left + 1, places, sets_[0].page());
}

int64_t BandPattern::MostKept(int, int64_t places) const {
  return band_.left == kUnlimited || band_.right > 0 ? places
                                                     : WindowKeeps(band_.left + 1, places, sets_[0].page());
}

// Of a track, the rows that still look over its beginning or end see less.
double BandPattern::Pairs(int64_t rows, int64_t tokens) const {
  const auto dilation = static_cast<double>(sets_[0].period);
  const auto until = [&](int64_t n) {
    const double places = static_cast<double>(n) / dilation;
    const double left = std::min(places, static_cast<double>(band_.left)),
                 right = std::min(places, static_cast<double>(band_.right));
    return dilation * (places * (1 + left + right) - (left * (left + 1) + right * (right + 1)) / 2);
  };
  if (band_.left == kUnlimited && band_.right == kUnlimited)
    return static_cast<double>(rows) * static_cast<double>(tokens);
  return until(tokens) - until(tokens - rows);
}

BlockPattern::BlockPattern(const Blocks& blocks) : blocks_(blocks) {
  sets_[0].period = sets_[0].end = blocks.step;
  sets_[0].apart = blocks.step > 1;
}

Range BlockPattern::Sees(int, int64_t position) const {
  const int64_t place = position / blocks_.step, begin = place / blocks_.block * blocks_.block;
  return {begin - blocks_.before, blocks_.causal ? place + 1 : begin + blocks_.block};
}

int64_t BlockPattern::KeptFrom(int, int64_t places) const {
  return blocks_.causal ? std::max<int64_t>(0, places / blocks_.block * blocks_.block - blocks_.before) : 0;
}

// So many neighbours lie in their number, rounded up to pages, and one page more; in one page where blocks
// divide pages.
int64_t BlockPattern::MostKept(int, int64_t places) const {
  const int64_t seen = blocks_.block + blocks_.before, page = sets_[0].page();
  if (!blocks_.causal) return places;
  if (blocks_.before == 0 && page % blocks_.block == 0) return std::min(places, page);
  return std::min(places, RoundUp(seen - 1, page) + page);
}

double BlockPattern::PairsOfTrack(int64_t places) const {
  const int64_t block = blocks_.block, before = blocks_.before, whole = places / block, rest = places % block;
  const auto own = [&](int64_t n) {
    return static_cast<double>(n) * static_cast<double>(blocks_.causal ? n + 1 : 2 * n) / 2;
  };
  const int64_t near = std::min(whole, before / block + 1);  // blocks with fewer than `before` places before
  const double earlier = static_cast<double>(near * (near - 1) / 2 * block) +
                         static_cast<double>(whole - near) * static_cast<double>(before);
  return static_cast<double>(whole) * own(block) + static_cast<double>(block) * earlier + own(rest) +
         static_cast<double>(rest * std::min(before, whole * block));
}

double BlockPattern::AllPairs(int64_t tokens) const {
  const int64_t longer = tokens % blocks_.step;
  return static_cast<double>(longer) * PairsOfTrack(tokens / blocks_.step + 1) +
         static_cast<double>(blocks_.step - longer) * PairsOfTrack(tokens / blocks_.step);
}

double BlockPattern::Pairs(int64_t rows, int64_t tokens) const {
  if (!blocks_.causal) return AllPairs(tokens) * static_cast<double>(rows) / static_cast<double>(tokens);
  return AllPairs(tokens) - AllPairs(tokens - rows);
}

// ---------------------------------------------------------------------------------- what is shared

PatternAttention::PatternAttention(const AttentionSetting& setting, PatternOptions options,
                                   std::vector<Product> products, int64_t max_tokens)
    : options_(std::move(options)),
      core_(ActivationType(setting.precision), options_.head_dim, options_.scale) {
  CHECK(options_.heads % options_.key_value_heads == 0 && options_.head_dim > 0 && options_.scale > 0);
  products_ = std::move(products);
  max_tokens_ = max_tokens;
  for (const KeyValuePages& pages : options_.constant)
    constant_bytes_ += KeyValuePages::Bytes(pages.type(), pages.head_dim(), 0, pages.end());
  out_width_ = options_.heads * options_.head_dim;
  decode_ = setting.causal || setting.cross ? DecodeClass::kExact : DecodeClass::kNone;
  for (const auto& pattern : options_.patterns) {
    constant_bytes_ += pattern->constant_bytes();
    passes_ = std::max(passes_, pattern->passes());
    for (int set = 0; set < std::ssize(pattern->sets()); ++set)
      forgets_ = forgets_ || pattern->KeptFrom(set, kMostTokens) > 0;
  }
  if (options_.constant.empty() && passes_ == 1) weighing_heads_ = options_.heads;
}

std::unique_ptr<AttentionRun> PatternAttention::Start() const { return std::make_unique<PatternRun>(*this); }

void PatternAttention::Prepare(const AttentionRows&, const Tile&, SoftmaxQueries&, std::vector<KeySource>&,
                               std::vector<std::unique_ptr<ScoreBias>>&, Scratch&) const {}

int64_t PatternAttention::StateBytes(int64_t tokens) const { return KeptBytes(options_.patterns, tokens); }

// Of the tracks of a set that are apart, tokens % period have one place more than the others.
int64_t PatternAttention::KeptBytes(const Patterns& patterns, int64_t tokens) const {
  const auto bytes = [&](const TrackSet& set, int64_t places) {
    return KeyValuePages::Bytes(core_.type(), options_.head_dim, 0, places, options_.k >= 0, set.page());
  };
  int64_t sum = sizeof(int64_t) + PartsBytes(patterns, tokens);
  if (passes_ > 1) sum += tokens * options_.heads * SizeOf(DType::kF32);
  for (int head = 0; head < options_.key_value_heads; ++head) {
    const Pattern& pattern = *patterns[patterns.size() == 1 ? 0 : head];
    for (size_t s = 0; s < pattern.sets().size(); ++s) {
      const TrackSet& set = pattern.sets()[s];
      const int64_t longer = tokens % set.tracks(), most = set.Places(0, tokens),
                    least = set.Places(set.tracks() - 1, tokens);
      sum += longer * bytes(set, pattern.MostKept(static_cast<int>(s), most)) +
             (set.tracks() - longer) * bytes(set, pattern.MostKept(static_cast<int>(s), least));
    }
  }
  return sum;
}

int64_t PatternAttention::PartsBytes(const Patterns& patterns, int64_t tokens) const {
  int64_t sum = 0;
  if (passes_ > 1) return 0;
  for (int head = 0; head < options_.key_value_heads; ++head) {
    const Pattern& pattern = *patterns[patterns.size() == 1 ? 0 : head];
    int64_t parts = options_.constant.empty() ? 0 : SoftmaxCore::Parts(options_.constant[head]);
    for (size_t s = 0; s < pattern.sets().size(); ++s) {
      const int64_t kept = pattern.MostKept(static_cast<int>(s), pattern.sets()[s].Places(0, tokens));
      parts += Quotient(kept, kKeyPart) + (kept > kKeyPart ? 1 : 0);
    }
    if (parts > std::ssize(pattern.sets())) sum += parts * core_.PartBytes(kFewRows);
  }
  return sum;
}

double PatternAttention::Cost(int64_t rows, int64_t tokens) const {
  double pairs = 0;
  for (int head = 0; head < options_.key_value_heads; ++head) {
    const int64_t constant = options_.constant.empty() ? 0 : options_.constant[head].end();
    pairs += pattern(head).Pairs(rows, tokens) + static_cast<double>(rows * constant);
  }
  return pairs * group() * PairCost();
}

int64_t PatternAttention::ScratchBytes() const {
  const int64_t turned = kPage * options_.head_dim * SizeOf(core_.type()),
                positions = kPage * static_cast<int64_t>(sizeof(int64_t));
  return std::max(Scratch::Piece(turned) + Scratch::Piece(positions),
                  BetweenRuns::ScratchBytes() + core_.ScratchBytes());
}

absl::StatusOr<std::vector<Product>> LoadQueriesKeysValues(const AttentionSetting& setting,
                                                           const PatternOptions& options,
                                                           const WeightScope& scope) {
  const int64_t key_width = options.key_value_heads * options.head_dim;
  ASSIGN_OR_RETURN(Product q, LoadProduct(scope, "q", options.heads * options.head_dim, setting.width));
  ASSIGN_OR_RETURN(Product k, LoadProduct(scope, "k", key_width, setting.width));
  ASSIGN_OR_RETURN(Product v, LoadProduct(scope, "v", key_width, setting.width));
  k.of_source = v.of_source = setting.cross;
  return std::vector<Product>{q, k, v};
}

PatternOptions PlainHeads(const AttentionSetting& setting, JsonFields& fields) {
  PatternOptions options;
  options.heads = options.key_value_heads = setting.num_heads;
  options.head_dim = HeadDim(setting, fields);
  options.scale = 1 / std::sqrt(static_cast<double>(options.head_dim));
  return options;
}

absl::StatusOr<std::unique_ptr<Attention>> NewPatternAttention(const AttentionSetting& setting,
                                                               JsonFields& fields, const WeightScope& scope,
                                                               Patterns patterns, int64_t max_tokens) {
  PatternOptions options = PlainHeads(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  options.patterns = std::move(patterns);
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadQueriesKeysValues(setting, options, scope));
  return std::make_unique<PatternAttention>(setting, std::move(options), std::move(products), max_tokens);
}

// ------------------------------------------------------------------------------------ one sequence

PatternRun::PatternRun(const PatternAttention& attention, const Taking& taking)
    : attention_(&attention), taking_(taking) {
  Clear();
}

PatternRun::PatternRun(const PatternRun& other)
    : attention_(other.attention_),
      taking_(other.taking_),
      patterns_(other.patterns_),
      heads_(other.heads_),
      tokens_(other.tokens_) {}

void PatternRun::Clear() {
  heads_.clear();
  for (int head = 0; head < options().key_value_heads; ++head) {
    auto& sets = heads_.emplace_back();
    for (const TrackSet& set : pattern(head).sets()) {
      sets.emplace_back(set.tracks(), KeyValuePages(attention_->core().type(), options().head_dim,
                                                    options().k >= 0, set.page()));
    }
  }
}

void PatternRun::Follow(Patterns patterns) {
  CHECK_EQ(tokens_, 0);
  patterns_ = std::move(patterns);
  Clear();
}

std::vector<AttentionStage> PatternRun::Begin(const AttentionRows& rows) {
  const int heads = options().key_value_heads;
  const int64_t taken = rows.source_count;
  from_ = tokens_;
  Grow(taken);
  tokens_ += taken;
  taken_cuts_ = taken == 0 ? 0 : Quotient((from_ + taking_.ahead) % taking_.cut + taken, taking_.cut);
  CutTiles(rows);
  parts_ = CountParts(rows);
  stages_.clear();
  std::vector<AttentionStage> stages;
  if (rows.count > 0 && std::max(rows.count * attention_->group(), taken) <= kFewRows && parts_ == 0) {
    double cost = taking_.row_cost * static_cast<double>(taken);
    for (const Pass& pass : passes_) cost += pass.row_cost * static_cast<double>(rows.count);
    Add({Stage::kStep}, heads, cost, stages);
    return stages;
  }
  const auto taken_rows = static_cast<double>(std::min(taken, Quotient(taking_.cut, taking_.stages)));
  const double row_cost = kMoved * static_cast<double>(options().head_dim) + taking_.row_cost;
  for (int stage = 0; stage < taking_.stages && taken > 0; ++stage)
    Add({Stage::kTake}, heads * taken_cuts_, row_cost * taken_rows, stages);
  if (rows.count > 0) AddAttending(rows, stages);
  if (taken > 0 && attention_->forgets()) Add({Stage::kForget}, 1, 0, stages);
  return stages;
}

void PatternRun::Add(Planned planned, int64_t tasks, double cost, std::vector<AttentionStage>& stages) {
  stages_.push_back(planned);
  stages.push_back({tasks, cost});
}

void PatternRun::AddAttending(const AttentionRows& rows, std::vector<AttentionStage>& stages) {
  if (parts_ > 0) return AddParts(rows, stages);
  for (int pass = 0; pass < std::ssize(passes_); ++pass)
    Add({Stage::kAttend, pass}, passes_[pass].tiles, passes_[pass].tile_cost, stages);
}

void PatternRun::AddParts(const AttentionRows& rows, std::vector<AttentionStage>& stages) {
  const SoftmaxCore& core = attention_->core();
  const int64_t results = options().key_value_heads * parts_;
  const int64_t bytes = results * core.PartBytes(kFewRows);
  if (static_cast<int64_t>(part_results_.size()) < bytes) part_results_ = Buffer::Lasting(bytes);
  part_bytes_ = core.PartBytes(rows.count * attention_->group());
  const double cost = passes_[0].row_cost * static_cast<double>(rows.count) / static_cast<double>(parts_);
  Add({Stage::kParts}, results, cost, stages);
  Add({Stage::kMerge}, options().key_value_heads, kMoved * static_cast<double>(parts_ * part_bytes_), stages);
}

// f(set, its number, track, the track's pages) for all tracks that get any of the rows.
template <typename F>
void PatternRun::ForTracks(int head, int64_t rows, F f) {
  for (int s = 0; s < std::ssize(heads_[head]); ++s) {
    const TrackSet& set = pattern(head).sets()[s];
    for (int64_t i = 0; i < std::min(rows, set.tracks()); ++i) {
      const int64_t track = (from_ + i) % set.tracks();
      f(set, s, track, heads_[head][s][track]);
    }
  }
}

void PatternRun::Grow(int64_t rows) {
  for (int head = 0; head < options().key_value_heads; ++head) {
    ForTracks(head, rows, [&](const TrackSet& set, int, int64_t track, KeyValuePages& pages) {
      pages.Grow(set.Places(track, from_ + rows) - pages.end());
    });
  }
}

void PatternRun::Forget(int head, int64_t rows) {
  ForTracks(head, rows, [&](const TrackSet&, int set, int64_t, KeyValuePages& pages) {
    pages.DropBefore(pattern(head).KeptFrom(set, pages.end()));
  });
}

void PatternRun::CutTiles(const AttentionRows& rows) {
  passes_.assign(attention_->passes(), {});
  for (int head = 0; head < options().key_value_heads && rows.count > 0; ++head) {
    for (RowSection& section : pattern(head).Sections(rows.count, tokens_)) {
      Pass& pass = passes_[section.pass];
      Cut& cut = pass.cuts.emplace_back(CutOf(head, std::move(section)));
      cut.first_tile = pass.tiles;
      pass.tiles += std::min(cut.rows(), cut.period) * cut.tiles;
      pass.row_cost = std::max(pass.row_cost, cut.row_cost);
      pass.tile_cost = std::max(pass.tile_cost, cut.row_cost * static_cast<double>(cut.tile_rows));
    }
  }
  const auto bytes = static_cast<size_t>(rows.count * options().heads * SizeOf(DType::kF32));
  if (passes_.size() > 1 && lse_.size() < bytes) lse_ = Buffer::Lasting(bytes);
}

// As many rows to a tile as the core takes; fewer where a narrow band would be read in vain, or where keys
// are so many that the task would be long. A block's tiles are alike.
PatternRun::Cut PatternRun::CutOf(int head, RowSection section) const {
  const int group = attention_->group();
  const int64_t block = section.block;
  const double constant =
      options().constant.empty() ? 0 : static_cast<double>(options().constant[head].end());
  const bool narrow =
      block == 0 && section.keys < 8 * SoftmaxCore::kTile && section.keys < static_cast<double>(tokens_);
  const int64_t most = std::max(1, (narrow ? SoftmaxCore::kTile / 2 : SoftmaxCore::kTile) / group);
  Cut cut{.head = head, .section = std::move(section)};
  cut.period = block > 0 ? 1 : pattern(head).row_period(cut.section.pass);
  cut.row_cost = std::max(cut.section.keys + constant, 1.0) * group * attention_->PairCost();
  cut.tile_rows = std::clamp(static_cast<int64_t>(kTaskCost / cut.row_cost), int64_t{1}, most);
  const int64_t of_group = cut.RowsOf(0);
  cut.unit = block == 0 ? of_group : std::min(of_group, std::max(cut.tile_rows / block, int64_t{1}) * block);
  if (block > 0) cut.tile_rows = Quotient(cut.unit, cut.tiles_of_unit());
  cut.tiles = Quotient(of_group, cut.unit) * cut.tiles_of_unit();
  return cut;
}

// The pages of a set that the row at a position reads.
const KeyValuePages& PatternRun::Pages(int head, int set, int64_t position) const {
  const Tracks& tracks = heads_[head][set];
  return tracks[position % std::ssize(tracks)];
}

// 0 where the rows are many, or all their keys are one part, or rows come in blocks or in several passes, or
// weights are asked for: what parts give together is the same bits.
int64_t PatternRun::CountParts(const AttentionRows& rows) const {
  if (rows.weights != nullptr) return 0;
  const auto in_blocks = [](const Cut& cut) { return cut.section.block > 0; };
  if (passes_.size() > 1 || std::ranges::any_of(passes_[0].cuts, in_blocks)) return 0;
  const PatternOptions& o = options();
  int64_t most = 0;
  bool cut = false;
  for (int head = 0; head < options().key_value_heads; ++head) {
    const int64_t period = pattern(head).row_period(0);
    if (rows.count * attention_->group() > kFewRows || (period > 1 && rows.count > 1)) return 0;
    int64_t sum = 0;
    for (int set = 0; set < std::ssize(heads_[head]); ++set) {
      const int64_t parts = SoftmaxCore::Parts(Pages(head, set, rows.first));
      cut = cut || parts > 1;
      sum += parts;
    }
    most = std::max(most, sum + (o.constant.empty() ? 0 : SoftmaxCore::Parts(o.constant[head])));
  }
  return cut && rows.count > 0 ? most : 0;
}

void PatternRun::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  const int heads = options().key_value_heads;
  switch (const auto [kind, pass] = stages_[stage]; kind) {
    case Stage::kStep:
      return Step(rows, static_cast<int>(task), scratch);
    case Stage::kTake:
      return TakeCut(rows, static_cast<int>(task / taken_cuts_), task % taken_cuts_, stage, scratch);
    case Stage::kAttend: {
      const Cut& cut = CutAt(pass, task);
      return AttendTile(rows, cut, TileAt(cut, task - cut.first_tile), scratch);
    }
    case Stage::kParts:
    case Stage::kMerge: {
      const int head = static_cast<int>(kind == Stage::kParts ? task / parts_ : task);
      const int64_t part = kind == Stage::kParts ? task % parts_ : 0;
      return Attend(rows, {.head = head, .count = rows.count}, Sources(head, 0, rows.first), kind, part,
                    scratch);
    }
    case Stage::kForget:
      for (int head = 0; head < heads; ++head) Forget(head, rows.source_count);
  }
}

void PatternRun::Step(const AttentionRows& rows, int head, Scratch& scratch) {
  for (int64_t cut = 0; cut < taken_cuts_; ++cut) {
    for (int stage = 0; stage < taking_.stages; ++stage) TakeCut(rows, head, cut, stage, scratch);
  }
  for (int pass = 0; pass < std::ssize(passes_); ++pass) {
    for (const Cut& cut : passes_[pass].cuts) {
      if (cut.head != head) continue;
      for (int64_t group = 0; group < std::min(cut.rows(), cut.period); ++group) {
        const int64_t first = cut.section.rows.begin + group;
        AttendTile(rows, cut, {head, first, cut.period, cut.RowsOf(group), pass}, scratch);
      }
    }
  }
  if (rows.source_count > 0) Forget(head, rows.source_count);
}

const PatternRun::Cut& PatternRun::CutAt(int pass, int64_t task) const {
  return *std::prev(std::ranges::upper_bound(passes_[pass].cuts, task, {}, &Cut::first_tile));
}

PatternRun::Tile PatternRun::TileAt(const Cut& cut, int64_t tile) {
  const int64_t group = tile / cut.tiles, of_unit = cut.tiles_of_unit();
  const int64_t unit = tile % cut.tiles / of_unit * cut.unit,
                first = unit + tile % cut.tiles % of_unit * cut.tile_rows;
  const int64_t end = std::min({first + cut.tile_rows, unit + cut.unit, cut.RowsOf(group)});
  return {cut.head, cut.section.rows.begin + group + first * cut.period, cut.period,
          std::max(end - first, int64_t{0}), cut.section.pass};
}

// ---------------------------------------------------------------------------------- taking rows in

Range PatternRun::TakenCut(int64_t cut) const {
  const int64_t begin = ((from_ + taking_.ahead) / taking_.cut + cut) * taking_.cut - taking_.ahead;
  return {begin, begin + taking_.cut};
}

void PatternRun::TakeCut(const AttentionRows& rows, int head, int64_t cut, int, Scratch& scratch) {
  for (int set = 0; set < std::ssize(heads_[head]); ++set) {
    if (!pattern(head).sets()[set].made) TakeSet(rows, head, set, cut, scratch);
  }
}

// No two cuts write the same page: a track of all positions is cut at whole pages, others are one cut's.
void PatternRun::TakeSet(const AttentionRows& rows, int head, int number, int64_t cut, Scratch& scratch) {
  const TrackSet& set = pattern(head).sets()[number];
  Tracks& tracks = heads_[head][number];
  const auto write = [&](int64_t track, int64_t position, int64_t step, int64_t count) {
    Write(tracks[track], set.Places(track, position), rows, {head, position - from_, step, count}, scratch);
  };
  if (set.apart) {
    for (int64_t i = cut; i < std::min(rows.source_count, set.period); i += taken_cuts_)
      write((from_ + i) % set.period, from_ + i, set.period, Quotient(rows.source_count - i, set.period));
    return;
  }
  if (!set.all() && cut > 0) return;
  const Range grid = TakenCut(cut);
  const int64_t begin = std::max(from_, grid.begin);
  const int64_t last = set.all() ? std::min(tokens_, grid.end) : tokens_;
  for (Range run = set.Run(begin); run.begin < std::min(run.end, last); run = set.Run(run.end))
    write(0, run.begin, 1, std::min(run.end, last) - run.begin);
}

// A page's worth at a time: keys are turned on the way, while they are hot.
void PatternRun::Write(KeyValuePages& pages, int64_t place, const AttentionRows& rows, const Tile& run,
                       Scratch& scratch) {
  const PatternOptions& o = options();
  const auto of_run = [&](int product) {
    const Rows all = rows.products[product].Cols(run.head * o.head_dim, o.head_dim);
    return Rows{all.dtype, all.at(run.row), run.count, all.cols, all.stride * run.step};
  };
  const Rows values = of_run(o.v), keys = o.k >= 0 ? of_run(o.k) : values;
  if (!o.rotary) return pages.Write(place, keys, values);
  const ScratchFrame frame(scratch);
  const Rows turned{keys.dtype, scratch.Take<char>(kPage * o.head_dim * SizeOf(keys.dtype)), kPage,
                    o.head_dim, o.head_dim};
  int64_t* positions = scratch.Take<int64_t>(kPage);
  for (int64_t row = 0; row < run.count; row += kPage) {
    const int64_t count = std::min(kPage, run.count - row);
    const Rows k = turned.Slice(0, count);
    Convert(keys.Slice(row, count), k);
    for (int64_t i = 0; i < count; ++i) positions[i] = from_ + run.row + (row + i) * run.step;
    o.rotary->Apply(k, 1, {positions, static_cast<size_t>(count)});
    pages.Write(place + row, k, values.Slice(row, count));
  }
}

// --------------------------------------------------------------------------------------- attending

// Rows of several blocks block by block.
void PatternRun::AttendTile(const AttentionRows& rows, const Cut& cut, const Tile& tile, Scratch& scratch) {
  const int64_t begin = cut.section.rows.begin, block = cut.section.block, end = tile.row + tile.count;
  if (tile.count == 0) return;
  const ScratchFrame frame(scratch);
  if (block == 0)
    return Attend(rows, tile, Sources(tile.head, tile.pass, rows.first + tile.row), Stage::kAttend, 0,
                  scratch);
  for (int64_t row = tile.row, next; row < end; row = next) {
    const ScratchFrame frame_of_block(scratch);
    const int64_t number = (row - begin) / block;
    next = std::min(end, begin + (number + 1) * block);
    const std::vector<Range> runs = cut.section.runs(number);
    const BetweenRuns between(runs, scratch);
    Attend(rows, {.head = tile.head, .row = row, .count = next - row},
           SourcesOfRuns(tile.head, runs, cut.section.causal, between), Stage::kAttend, 0, scratch);
  }
}

// What the row at a position sees in a pass; in the first one also what all rows see.
std::vector<KeySource> PatternRun::Sources(int head, int pass, int64_t position) const {
  const PatternOptions& o = options();
  const Pattern& pattern = this->pattern(head);
  std::vector<KeySource> sources;
  for (int set = 0; set < std::ssize(pattern.sets()); ++set) {
    if (pattern.sets()[set].pass != pass) continue;
    sources.push_back({.pages = &Pages(head, set, position),
                       .sees = [&pattern, set](int64_t place) { return pattern.Sees(set, place); },
                       .last_place = pattern.sets()[set].last_place,
                       .bias = o.bias ? &*o.bias : nullptr});
  }
  if (pass == 0 && !o.constant.empty()) sources.push_back({.pages = &o.constant[head]});
  return sources;
}

// Runs of neighbouring pieces are read as one; what lies between them is masked.
std::vector<KeySource> PatternRun::SourcesOfRuns(int head, const std::vector<Range>& runs, bool causal,
                                                 const ScoreBias& between) const {
  const PatternOptions& o = options();
  const auto near = [&](const Range& run, const Range& next) {
    return !o.bias && RoundDown(next.begin, kSoftmaxPiece) <= RoundUp(run.end, kSoftmaxPiece);
  };
  std::vector<KeySource> sources;
  for (size_t i = 0, last; i < runs.size(); i = last + 1) {
    for (last = i; last + 1 < runs.size() && near(runs[last], runs[last + 1]);) ++last;
    const Range all{runs[i].begin, runs[last].end};
    const ScoreBias* bias = o.bias ? &*o.bias : nullptr;
    sources.push_back({.pages = &heads_[head][0][0],
                       .sees =
                           [all, causal](int64_t position) {
                             return Range{all.begin, causal ? std::min(all.end, position + 1) : all.end};
                           },
                       .bias = last > i ? &between : bias,
                       .continues = true});
  }
  if (!o.constant.empty()) sources.push_back({.pages = &o.constant[head]});
  return sources;
}

void PatternRun::Attend(const AttentionRows& rows, const Tile& tile, std::vector<KeySource> sources,
                        Stage stage, int64_t part, Scratch& scratch) {
  const PatternOptions& o = options();
  const int group = attention_->group();
  const auto of_tile = [&](const Rows& all) {
    const Rows head = all.Cols(tile.head * group * o.head_dim, group * o.head_dim);
    return Rows{head.dtype, head.at(tile.row), tile.count, head.cols, head.stride * tile.step};
  };
  SoftmaxQueries queries;
  queries.q =
      o.q >= 0 ? of_tile(rows.products[o.q]) : Rows{attention_->core().type(), nullptr, tile.count, 0, 0};
  queries.out = of_tile(rows.out);
  queries.heads = group;
  queries.first_head = tile.head * group;
  queries.first = rows.first + tile.row;
  queries.step = tile.step;
  queries.rotary = o.rotary ? &*o.rotary : nullptr;
  if (passes_.size() > 1) {
    queries.lse = lse_.as<float>() + (tile.head * rows.count + tile.row) * group;
    queries.lse_step = tile.step;
    queries.merges = tile.pass > 0;
  }
  if (rows.weights != nullptr) AskForWeights(rows, tile, queries, sources);
  std::vector<std::unique_ptr<ScoreBias>> biases;
  Tile prepared = tile;
  prepared.pattern = &pattern(tile.head);
  attention_->Prepare(rows, prepared, queries, sources, biases, scratch);
  const SoftmaxCore& core = attention_->core();
  char* results = part_results_.as<char>() + tile.head * parts_ * part_bytes_;
  if (stage == Stage::kParts) {
    core.AttendPart(queries, sources, part, results + part * part_bytes_, scratch);
  } else if (stage == Stage::kMerge) {
    core.MergeParts(queries, parts_, results, scratch);
  } else {
    core.Attend(queries, sources, scratch);
  }
}

// Tracks of all positions have them at their places.
void PatternRun::AskForWeights(const AttentionRows& rows, const Tile& tile, SoftmaxQueries& queries,
                               std::vector<KeySource>& sources) const {
  queries.weights = [&rows, tile, first_head = queries.first_head](int64_t row, int head) {
    return rows.Weights(first_head + head, tile.row + row * tile.step);
  };
  const std::vector<TrackSet>& sets = pattern(tile.head).sets();
  for (size_t s = 0; s < sets.size(); ++s) {
    if (sets[s].all()) continue;
    const int64_t track = queries.first % sets[s].tracks();
    sources[s].key = [&set = sets[s], track](int64_t place) { return set.Position(track, place); };
  }
}

// ------------------------------------------------------------------------------------------- state

void PatternRun::Archive(StateArchive& archive) {
  archive.Number(tokens_, 0, kMostTokens);
  if (archive.measuring()) {
    archive.Bytes(part_results_, static_cast<int64_t>(part_results_.size()));
    archive.Bytes(lse_, static_cast<int64_t>(lse_.size()));
  }
  if (tokens_ == 0) return;
  for (int head = 0; head < options().key_value_heads; ++head) {
    const Pattern& pattern = this->pattern(head);
    for (int s = 0; s < std::ssize(heads_[head]); ++s) {
      for (int64_t track = 0; track < std::ssize(heads_[head][s]); ++track) {
        const TrackSet& set = pattern.sets()[s];
        const int64_t places = set.Places(track, tokens_);
        heads_[head][s][track].Archive(archive, RoundDown(pattern.KeptFrom(s, places), set.page()), places);
      }
    }
  }
}

}  // namespace heed
