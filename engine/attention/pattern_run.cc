// One sequence of a PatternAttention: what its rows give to do, and what it remembers.
#include <algorithm>
#include <utility>

#include "absl/log/check.h"
#include "engine/attention/pattern_attention.h"
#include "engine/base/round.h"

namespace heed {
namespace {

constexpr int64_t kPage = KeyValuePages::kPage;
constexpr int64_t kMostTokens = int64_t{1} << 40;

}  // namespace

PatternRun::PatternRun(const PatternAttention& attention, const Taking& taking)
    : attention_(&attention), taking_(taking) {
  Clear();
}

PatternRun::PatternRun(const PatternRun& other)
    : attention_(other.attention_),
      taking_(other.taking_),
      patterns_(other.patterns_),
      tracks_(other.tracks_),
      first_tracks_(other.first_tracks_),
      tokens_(other.tokens_) {}

void PatternRun::Clear() {
  tracks_.clear();
  first_tracks_.clear();
  for (int head = 0; head < options().key_value_heads; ++head) {
    first_tracks_.push_back(std::ssize(tracks_));
    for (const TrackSet& set : pattern(head).sets()) {
      const KeyValuePages empty(attention_->core().type(), options().head_dim, options().k >= 0, set.page());
      for (int64_t track = 0; track < set.tracks(); ++track) tracks_.push_back(empty);
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
  passed_ = rows.held ? 0 : taken + rows.released;
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
  if (passed_ > 0 && attention_->forgets()) Add({Stage::kForget}, 1, 0, stages);
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
  const int64_t bytes = PartsBytes(core, results);
  if (static_cast<int64_t>(part_results_.size()) < bytes) part_results_ = Buffer::Lasting(bytes);
  part_bytes_ = core.PartBytes(rows.count * attention_->group());
  const double cost = passes_[0].row_cost * static_cast<double>(rows.count) / static_cast<double>(parts_);
  Add({Stage::kParts}, results, cost, stages);
  Add({Stage::kMerge}, options().key_value_heads, kMoved * static_cast<double>(parts_ * part_bytes_), stages);
}

// f(set, its number, track, the track's pages) for all tracks that get any of the rows.
template <typename F>
void PatternRun::ForTracks(int head, int64_t rows, F f) {
  const std::vector<TrackSet>& sets = pattern(head).sets();
  for (int s = 0; s < std::ssize(sets); ++s) {
    for (int64_t i = 0; i < std::min(rows, sets[s].tracks()); ++i) {
      const int64_t track = (from_ + i) % sets[s].tracks();
      f(sets[s], s, track, Track(head, s, track));
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
  passes_.resize(attention_->passes());
  for (Pass& pass : passes_) pass.Clear();
  std::vector<RowSection> sections;
  for (int head = 0; head < options().key_value_heads && rows.count > 0; ++head) {
    if (head == 0 || &pattern(head) != &pattern(head - 1))
      sections = pattern(head).Sections(rows.count, tokens_);
    for (const RowSection& section : sections) {
      Pass& pass = passes_[section.pass];
      Cut& cut = pass.cuts.emplace_back(CutOf(head, section));
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
    for (int set = 0; set < std::ssize(pattern(head).sets()); ++set) {
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
      for (int head = 0; head < heads; ++head) Forget(head, passed_);
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
  if (passed_ > 0) Forget(head, passed_);
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
  for (int set = 0; set < std::ssize(pattern(head).sets()); ++set) {
    if (!pattern(head).sets()[set].made) TakeSet(rows, head, set, cut, scratch);
  }
}

// No two cuts write the same page: a track of all positions is cut at whole pages, others are one cut's.
void PatternRun::TakeSet(const AttentionRows& rows, int head, int number, int64_t cut, Scratch& scratch) {
  const TrackSet& set = pattern(head).sets()[number];
  const auto write = [&](int64_t track, int64_t position, int64_t step, int64_t count) {
    Write(Track(head, number, track), set.Places(track, position), rows,
          {head, position - from_, step, count}, scratch);
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
    if (o.key_norm) o.key_norm->Apply(k);
    pages.Write(place + row, k, values.Slice(row, count));
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
    for (int s = 0; s < std::ssize(pattern.sets()); ++s) {
      const TrackSet& set = pattern.sets()[s];
      for (int64_t track = 0; track < set.tracks(); ++track) {
        const int64_t places = set.Places(track, tokens_);
        Track(head, s, track).Archive(archive, RoundDown(pattern.KeptFrom(s, places), set.page()), places);
      }
    }
  }
}

}  // namespace heed
