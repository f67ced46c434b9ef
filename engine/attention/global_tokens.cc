#include "engine/attention/global_tokens.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <set>
#include <utility>

#include "engine/base/round.h"
#include "engine/base/status.h"

namespace heed {

namespace {

constexpr int64_t kFar = int64_t{1} << 30;  // of a state's global token

}  // namespace

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

std::span<const int64_t> GlobalTokensRun::GlobalTokens() const {
  const std::vector<TrackSet>& sets = pattern(0).sets();
  return sets.size() == 1 ? std::span<const int64_t>() : sets[1].listed;
}

std::vector<AttentionStage> GlobalTokensRun::Begin(const AttentionRows& rows) {
  if (rows.labels != nullptr) {
    std::vector<int64_t> given;
    for (int64_t row = 0; row < rows.count; ++row) {
      if (rows.labels[row] != 0) given.push_back(row);
    }
    given_ = std::ssize(given);
    Follow(patterns_with_(given));
  }
  std::vector<AttentionStage> stages = PatternRun::Begin(rows);
  band_stages_ = static_cast<int>(stages.size());
  globals_ = std::ranges::lower_bound(GlobalTokens(), rows.count) - GlobalTokens().begin();
  if (globals_ == 0) return stages;
  const int64_t heads = attention_->options().heads, dim = attention_->core().head_dim();
  const double row_cost = 2 * static_cast<double>(rows.count * dim);
  tile_rows_ = std::clamp<int64_t>(static_cast<int64_t>(kTaskCost / row_cost), 1, SoftmaxCore::kTile);
  stages.push_back({heads * Quotient(rows.count, kTakenRows),
                    kMoved * static_cast<double>(std::min(rows.count, kTakenRows) * dim)});
  stages.push_back({heads * Quotient(globals_, tile_rows_),
                    row_cost * static_cast<double>(std::min(globals_, tile_rows_))});
  return stages;
}

void GlobalTokensRun::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  if (stage < band_stages_) return PatternRun::Do(rows, stage, task, scratch);
  if (stage == band_stages_) {
    const int64_t cuts = Quotient(rows.count, kTakenRows);
    return Take(rows, static_cast<int>(task / cuts), task % cuts, scratch);
  }
  const int64_t tiles = Quotient(globals_, tile_rows_), first = task % tiles * tile_rows_;
  Attend(rows, static_cast<int>(task / tiles), {first, std::min(globals_, first + tile_rows_)}, scratch);
}

// As the band's, from other products.
void GlobalTokensRun::Take(const AttentionRows& rows, int head, int64_t cut, Scratch& scratch) {
  const std::array products = {rows.products[kQ], rows.products[kGlobalK], rows.products[kGlobalV]};
  AttentionRows for_globals = rows;
  for_globals.products = products.data();
  TakeCut(for_globals, head, cut, 0, scratch);
}

std::vector<KeySource> GlobalTokensRun::Everything(int head) {
  const TrackSet& set = pattern(head).sets()[0];
  std::vector<KeySource> tracks;
  for (int64_t track = 0; track < set.tracks(); ++track)
    tracks.push_back({.pages = &Track(head, 0, track),
                      .key = [&set, track](int64_t place) { return set.Position(track, place); }});
  return tracks;
}

void GlobalTokensRun::Attend(const AttentionRows& rows, int head, Range globals, Scratch& scratch) {
  const auto of_head = [&](const Rows& all) {
    const int64_t dim = attention_->core().head_dim();
    return all.Cols(head * dim, dim);
  };
  const Rows from = of_head(rows.products[kQ]), to = of_head(rows.out);
  const int64_t* positions = GlobalTokens().data() + globals.begin;
  const int64_t count = globals.size(), bytes = from.cols * SizeOf(from.dtype);
  SoftmaxQueries queries;
  queries.q = {from.dtype, scratch.Take<char>(count * bytes), count, from.cols, from.cols};
  queries.out = {from.dtype, scratch.Take<char>(count * bytes), count, from.cols, from.cols};
  for (int64_t i = 0; i < count; ++i) std::memcpy(queries.q.at(i), from.at(positions[i]), bytes);
  if (rows.weights != nullptr)
    queries.weights = [&](int64_t row, int) { return rows.Weights(head, positions[row]); };
  attention_->core().Attend(queries, Everything(head), scratch);
  for (int64_t i = 0; i < count; ++i) std::memcpy(to.at(positions[i]), queries.out.at(i), bytes);
}

// Which they are, if the request has said so. Each pattern has a list of them.
void GlobalTokensRun::ArchiveGiven(StateArchive& archive) {
  archive.Number(given_, kNoneGiven, attention_->labels().most);
  if (given_ == kNoneGiven || !archive.status().ok()) return;
  std::vector<int64_t> tokens(GlobalTokens().begin(), GlobalTokens().end());
  if (archive.restoring()) tokens.resize(given_);
  std::set<const Pattern*> lists = {&pattern(0)};
  for (int head = 0; head < attention_->options().heads && archive.measuring(); ++head)
    lists.insert(&pattern(head));
  for (size_t list = 0; list < lists.size(); ++list)
    archive.Bytes(tokens.data(), given_ * static_cast<int64_t>(sizeof(int64_t)));
  if (!archive.restoring() || !archive.status().ok()) return;
  const bool ascend = std::ranges::adjacent_find(tokens, std::greater_equal<>()) == tokens.end();
  if (given_ > 0 && (!ascend || tokens.front() < 0 || tokens.back() >= kFar))
    return archive.Fail(Invalid("the state's global tokens are not ascending positions"));
  Follow(patterns_with_(tokens));
}

void GlobalTokensRun::Archive(StateArchive& archive) {
  ArchiveGiven(archive);
  PatternRun::Archive(archive);
}

}  // namespace heed
