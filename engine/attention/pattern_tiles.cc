// How the rows of a task attend: of a PatternRun, what a tile of them reads.
#include <algorithm>
#include <utility>

#include "engine/attention/between_runs.h"
#include "engine/attention/pattern_attention.h"
#include "engine/base/round.h"
#include "engine/ops/gates.h"

namespace heed {

// The pages of a set that the row at a position reads.
const KeyValuePages& PatternRun::Pages(int head, int set, int64_t position) const {
  return tracks_[FirstTrack(head, set) + position % pattern(head).sets()[set].tracks()];
}

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
    sources.push_back({.pages = &tracks_[FirstTrack(head, 0)],
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
  queries.norm = o.query_norm ? &*o.query_norm : nullptr;
  queries.scale = o.position_scale ? &*o.position_scale : nullptr;
  if (!o.sink_scores.empty()) queries.sinks = &o.sink_scores[queries.first_head];
  if (passes_.size() > 1) {
    queries.lse = lse_.as<float>() + (tile.head * rows.count + tile.row) * group;
    queries.lse_step = tile.step;
    queries.merges = tile.pass > 0;
  }
  if (rows.weights != nullptr) AskForWeights(rows, tile, queries, sources);
  std::vector<std::unique_ptr<ScoreBias>> biases;
  Tile prepared = tile;
  prepared.pattern = &pattern(tile.head);
  Prepare(rows, prepared, queries, sources, biases, scratch);
  const SoftmaxCore& core = attention_->core();
  char* results = part_results_.as<char>() + tile.head * parts_ * part_bytes_;
  if (stage == Stage::kParts)
    return core.AttendPart(queries, sources, part, results + part * part_bytes_, scratch);
  if (stage == Stage::kMerge) {
    core.MergeParts(queries, parts_, results, scratch);
  } else {
    core.Attend(queries, sources, scratch);
  }
  if (o.gate < 0) return;
  const Rows& gates = rows.products[o.gate];
  if (o.gating == PatternOptions::Gating::kNumbers) return MultiplyBySigmoid(of_tile(gates), queries.out);
  const Rows of_heads = gates.Cols(queries.first_head, group);
  const Rows of_rows{gates.dtype, of_heads.at(tile.row), tile.count, group, gates.stride * tile.step};
  if (o.gating == PatternOptions::Gating::kHeadsBySoftplus) return MultiplyBySoftplus(of_rows, queries.out);
  MultiplyBySigmoid(of_rows, queries.out);
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

}  // namespace heed
