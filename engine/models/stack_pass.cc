#include "engine/models/stack_pass.h"

#include <algorithm>
#include <utility>

#include "absl/log/check.h"
#include "absl/log/log.h"
#include "engine/base/round.h"

namespace heed {
namespace {

// Rows that a team should have, before there is one more: each team reads all weights.
constexpr int64_t kRowsOfATeam = 64;

}  // namespace

StackPass::StackPass(const Stack& stack, Precision precision, Workspaces& workspaces)
    : stack_(stack), precision_(precision), workspaces_(workspaces), sets_(stack.sets().size()) {}

StackPass::~StackPass() {
  if (workspace_) workspaces_.Return(std::move(workspace_));
}

void StackPass::Reserve(std::span<const ShareSize> sizes) {
  for (size_t set = 0; set < sets_.size(); ++set) {
    const RowSet& of = stack_.sets()[set];
    int64_t rows = 0;
    for (const ShareSize& size : sizes) rows += of.count.exact(size);
    sets_[set].positions.reserve(rows);
    if (of.input != WorkInput::kNone) sets_[set].ids.reserve(rows);
    if (of.typed) sets_[set].types.reserve(rows);
  }
}

void StackPass::Add(const Share& share) {
  for (size_t set = 0; set < sets_.size(); ++set) AddRows(static_cast<int>(set), share);
  shares_.push_back(share);
}

void StackPass::AddRows(int set, const Share& share) {
  const RowSet& of = stack_.sets()[set];
  SetRows& rows = sets_[set];
  const ShareSize before{.rows = share.size.first};
  const Part part{.first = of.remembered && before.rows > 0 ? of.count.exact(before) : 0,
                  .row = this->rows(set),
                  .count = of.count.exact(share.size),
                  .labelled = of.takes_labels() && !share.labels.empty()};
  if (of.input != WorkInput::kNone) {
    const std::span<const int32_t> ids = of.input == WorkInput::kSource ? share.source : share.ids;
    CHECK_EQ(of.front + std::ssize(ids), part.count);
    rows.ids.resize(rows.ids.size() + of.front);
    if (of.id_before >= 0) rows.ids.push_back(of.id_before);
    rows.ids.insert(rows.ids.end(), ids.begin(), ids.end() - (of.id_before >= 0 ? 1 : 0));
  }
  if (of.typed_as) {
    for (int64_t i = 0; i < part.count; ++i)
      rows.types.push_back(share.types.empty() ? 0 : share.types[of.typed_as(i)]);
  } else if (of.typed) {
    rows.types.resize(rows.ids.size());
    std::ranges::copy(share.types, rows.types.end() - std::ssize(share.types));
  }
  if (part.labelled) {
    CHECK_EQ(of.front + std::ssize(share.labels), part.count);
    rows.labels.reserve(rows.positions.capacity());
    rows.labels.resize(part.row, RowPlaces::kNoLabel);
    rows.labels.resize(part.row + of.front);
    rows.labels.insert(rows.labels.end(), share.labels.begin(), share.labels.end());
    rows.labelled += std::ssize(share.labels) - std::ranges::count(share.labels, 0);
  }
  for (int64_t i = 0; i < part.count; ++i)
    rows.positions.push_back(of.group > 0 ? i % of.group : part.first + i);
  parts_.push_back(part);
}

void StackPass::Begin(int64_t answers, int64_t output_width, int64_t hidden_width) {
  WorkspaceSize size{.answers = answers, .output_width = output_width, .hidden_width = hidden_width};
  for (SetRows& rows : sets_) {
    if (!rows.labels.empty()) rows.labels.resize(rows.positions.size(), RowPlaces::kNoLabel);
    size.rows.push_back(std::ssize(rows.positions));
  }
  workspace_ = workspaces_.Take(stack_, precision_, size);
}

bool StackPass::Advance(Threads& threads, Turn& turn) {
  // Also where no phase is a program: who answers has a block of its own.
  Workspaces::AddThreads(*workspace_, stack_, precision_, /*rows=*/1, threads.count());
  while (turn.room > 0 && RunPhase(threads, turn)) {
    const bool layer = phase().kind == Phase::Kind::kAttend;
    if (++phase_ == stack_.passed()) return false;
    if (layer) return true;
  }
  return true;
}

// True when the phase is done, false when there was no room for all of it.
bool StackPass::RunPhase(Threads& threads, Turn& turn) {
  if (phase().kind == Phase::Kind::kProgram) return rows(phase().set) == 0 || RunProgram(threads, turn);
  if (phase().kind == Phase::Kind::kMove) return RunMove(threads, turn);
  const Attend& attend = stack_.attentions()[phase().attend];
  const bool source = phase().kind == Phase::Kind::kTakeSource;
  if (rows(source ? attend.source : attend.set) == 0) return true;
  if (stack_.group(attend) > 0) return RunGroups(threads, turn, attend);
  if (!begun_) BeginAttention(attend, source);
  begun_ = true;
  if (!attention_.Advance(threads, turn, workspace_->scratch)) return false;
  begun_ = false;
  if (!source) EndAttention();
  return true;
}

// A task is the next kTakenRows rows of a sequence.
bool StackPass::RunMove(Threads& threads, Turn& turn) {
  struct Task {
    int share;
    int64_t first, count;
  };
  std::vector<Task> tasks;
  for (int s = 0; s < std::ssize(shares_); ++s) {
    const int64_t count = part(s, phase().set).count;
    for (int64_t first = 0; first < count; first += kTakenRows)
      tasks.push_back({s, first, std::min(kTakenRows, count - first)});
  }
  const RowSet& set = stack_.sets()[phase().set];
  const double row_cost = kRowWise * static_cast<double>(set.inputs_width > 0 ? set.inputs_width : set.width);
  const auto run = [&](const Task& task) { Move(task.share, task.first, task.count); };
  if (turn.done == 0 && static_cast<double>(rows(phase().set)) * row_cost <= kAlone) {
    std::ranges::for_each(tasks, run);
    turn.room -= static_cast<double>(rows(phase().set)) * row_cost;
    return true;
  }
  return RunSome(
      threads, turn, std::ssize(tasks),
      [&](int64_t i) { return static_cast<double>(tasks[i].count) * row_cost; },
      [&](int64_t i, int) { run(tasks[i]); });
}

void StackPass::Move(int share, int64_t first, int64_t count) const {
  const Phase& move = phase();
  const Share& of = shares_[share];
  if (of.dropped) return;
  MovedFrom from{.ids = of.ids, .numbers = of.numbers, .first = of.size.first};
  if (stack_.kept_ids() > 0) from.ids_before = of.sequence->ids_before();
  if (move.from != Stack::kItself) {
    const Part& read = part(share, move.from);
    from.rows = x(move.from).Rows(read.row, read.count);
    if (stack_.sets()[move.from].kept > 0) from.rows_before = of.sequence->rows_before(move.from);
    if (const auto& columns = stack_.sets()[move.from].columns) from.columns = columns(of.size);
  }
  const bool inputs = stack_.sets()[move.set].inputs_width > 0;
  const Matrix<float> rows = inputs ? workspace_->sets[move.set].inputs.rows().As<float>() : x(move.set);
  move.move->Run(from, first, rows.Rows(part(share, move.set).row + first, count));
}

bool StackPass::RunProgram(Threads& threads, Turn& turn) {
  const auto run = [&](RowBlock& block, int64_t first) { RunSteps(block, first); };
  const int set = phase().set;
  const double cost = ProgramCost();
  alone_ = IsAlone(set, cost);
  if (phase().block_rows == kMaxBlockRows || alone_) return ForBlocks(threads, turn, set, cost, run);
  return ForTeamBlocks(threads, turn, set, cost, phase().block_rows, run);
}

void StackPass::RunSteps(RowBlock& block, int64_t first) const {
  const int64_t count = block.rows();
  const SetBuffers& buffers = workspace_->sets[phase().set];
  const auto slice = [&](const RowBuffer& buffer) {
    return buffer.rows().rows < first + count ? Rows() : buffer.rows().Slice(first, count);
  };
  const SetRows& rows = sets_[phase().set];
  const auto of_block = [&](std::span<const int32_t> all) {
    return all.empty() ? all : all.subspan(first, count);
  };
  const RowsBeside beside{.ids = of_block(rows.ids),
                          .types = of_block(rows.types),
                          .inputs = slice(buffers.inputs),
                          .places = PlacesOf(phase().set, first, count),
                          .products = slice(buffers.products),
                          .source_products = slice(buffers.source_products),
                          .attended = slice(buffers.attended)};
  for (const auto& step : phase().steps) step->Run(block, beside);
}

RowBlock StackPass::Block(int set, Team& team, int thread, int buffers, int64_t first, int64_t count) const {
  return {team, workspace_->scratch[thread], *workspace_->blocks[buffers], x(set).Rows(first, count)};
}

// Multiply-adds of the program at hand, a row.
double StackPass::ProgramCost() const {
  const SetRows& rows = sets_[phase().set];
  const double apart = static_cast<double>(rows.labelled) / static_cast<double>(rows.positions.size());
  const double moved = kRowWise * static_cast<double>(stack_.sets()[phase().set].width);
  return std::max(phase().multiply_adds + apart * phase().apart_multiply_adds, moved);
}

bool StackPass::IsAlone(int set, double row_cost) const {
  return rows(set) <= kMaxBlockRows && static_cast<double>(rows(set)) * row_cost <= kAlone;
}

// Little to do: the caller alone. Few rows: teams of several threads, each with one block. Many: blocks of
// equal size by one thread each, a multiple of the threads in number.
bool StackPass::ForBlocks(Threads& threads, Turn& turn, int set, double row_cost,
                          absl::FunctionRef<void(RowBlock& block, int64_t first)> f) {
  const int64_t rows = this->rows(set), count = threads.count();
  Workspaces::AddThreads(*workspace_, stack_, precision_, rows, threads.count());
  const auto run = [&](Team& team, int64_t thread, int64_t buffers, Range of) {
    RowBlock block =
        Block(set, team, static_cast<int>(thread), static_cast<int>(buffers), of.begin, of.size());
    f(block, of.begin);
  };
  const auto by_teams = [&](Team& team, Range members) {
    const auto cut = [&](int64_t thread) { return std::min(rows, (rows + 7) / 8 * thread / count * 8); };
    run(team, members.begin + team.rank(), members.begin, {cut(members.begin), cut(members.end)});
  };
  const int64_t teams = std::max<int64_t>(rows / kRowsOfATeam, 1);
  if (IsAlone(set, row_cost) || teams < count) {
    Team alone;
    IsAlone(set, row_cost) ? run(alone, 0, 0, {0, rows})
                           : threads.RunTeams(static_cast<int>(teams), by_teams);
    turn.room -= static_cast<double>(rows) * row_cost;
    return true;
  }
  const int64_t turns = (rows + count * kMaxBlockRows - 1) / (count * kMaxBlockRows);
  const int64_t size = ((rows + turns * count - 1) / (turns * count) + 7) / 8 * 8;
  return RunSome(
      threads, turn, (rows + size - 1) / size, [&](int64_t) { return static_cast<double>(size) * row_cost; },
      [&](int64_t i, int thread) {
        Team member;
        run(member, thread, thread, {i * size, std::min(rows, (i + 1) * size)});
      });
}

bool StackPass::ForTeamBlocks(Threads& threads, Turn& turn, int set, double row_cost, int64_t most,
                              absl::FunctionRef<void(RowBlock& block, int64_t first)> f) {
  const int64_t rows = this->rows(set);
  Workspaces::AddThreads(*workspace_, stack_, precision_, rows, threads.count());
  most = std::clamp(static_cast<int64_t>(kTurn * threads.count() / row_cost), kMaxBlockRows, most);
  const int64_t blocks = Quotient(rows, most), size = RoundUp(Quotient(rows, blocks), 8);
  for (; turn.done * size < rows && turn.room > 0; ++turn.done) {
    const int64_t first = turn.done * size, count = std::min(size, rows - first);
    threads.RunTeam([&](Team& team) {
      RowBlock block = Block(set, team, team.rank(), 0, first, count);
      f(block, first);
    });
    turn.room -= static_cast<double>(count) * row_cost;
  }
  const bool finished = turn.done * size >= rows;
  if (finished) turn.done = 0;
  return finished;
}

RowPlaces StackPass::PlacesOf(int set, int64_t first, int64_t count) const {
  const std::span<const int32_t> labels(sets_[set].labels);
  return {std::span(sets_[set].positions).subspan(first, count),
          labels.empty() ? labels : labels.subspan(first, count)};
}

// The runs take up their rows, or their sources.
void StackPass::BeginAttention(const Attend& attend, bool source) {
  const SetBuffers* const read = attend.cross() ? &workspace_->sets[attend.source] : nullptr;
  const std::vector<Rows> products = attend.sublayer->Split(workspace_->sets[attend.set].products.rows(),
                                                            read ? read->source_products.rows() : Rows(),
                                                            read ? read->products.rows() : Rows());
  attention_.Clear(alone_ ? kAlone : kAloneAwake);
  fresh_.resize(shares_.size());
  for (int s = 0; s < std::ssize(shares_); ++s) {
    const int64_t at = part(s, attend.set).row;
    const int64_t from = attend.cross() ? part(s, attend.source).row : 0;
    AttentionRows rows = RowsOf(s, attend, source);
    if (shares_[s].dropped || (source ? rows.source_count : rows.count) == 0) continue;
    AttentionRun& run = RunOf(s, attend);
    if (!source && WantsWeights(shares_[s], attend)) AskForWeights(s, attend, run, rows);
    std::vector<Rows> own;
    for (size_t p = 0; p < products.size(); ++p) {
      const bool of_source = attend.attention().products()[p].of_source;
      own.push_back(of_source ? products[p].Slice(source ? from : 0, rows.source_count)
                              : products[p].Slice(at, rows.count));
    }
    attention_.Add(s, run, rows, own);
  }
}

// Where rows attend in groups: some groups after another.
bool StackPass::RunGroups(Threads& threads, Turn& turn, const Attend& attend) {
  for (; begun_ || BeginGroups(attend, turn); begun_ = false) {
    begun_ = true;
    if (turn.room <= 0 || !attention_.Advance(threads, turn, workspace_->scratch)) return false;
  }
  fresh_.clear();
  grouped_ = 0;
  return true;
}

// The next groups; false if all have attended.
bool StackPass::BeginGroups(const Attend& attend, Turn& turn) {
  CHECK(!attend.cross() && !stack_.remembers(attend));
  const int64_t group = stack_.group(attend);
  const std::vector<Rows> products = attend.sublayer->Split(workspace_->sets[attend.set].products.rows());
  attention_.Clear(alone_ ? kAlone : kAloneAwake);
  fresh_.clear();
  for (int s = 0; s < std::ssize(shares_); ++s) {
    const Part& of = part(s, attend.set);
    CHECK_EQ(of.count % group, 0);
    if (shares_[s].dropped) continue;
    for (int64_t row = std::max(of.row, grouped_);
         row < of.row + of.count && std::ssize(fresh_) < RowSet::kGroupsAtOnce; row += group) {
      AddGroup(s, attend, row, products);
      grouped_ = row + group;
    }
  }
  // What so few rows keep costs more to write than to attend to.
  const auto numbers = static_cast<double>(attend.attention().StateBytes(group) / SizeOf(DType::kF32));
  turn.room -= kRowWise * numbers * static_cast<double>(fresh_.size());
  return !fresh_.empty();
}

void StackPass::AddGroup(int share, const Attend& attend, int64_t row, const std::vector<Rows>& products) {
  const int64_t group = stack_.group(attend);
  std::vector<Rows> own;
  for (const Rows& product : products) own.push_back(product.Slice(row, group));
  fresh_.push_back(attend.attention().Start());
  attention_.Add(share, *fresh_.back(), RowsOf(attend, row, group), own);
}

AttentionRun& StackPass::RunOf(int share, const Attend& attend) {
  if (stack_.remembers(attend)) return shares_[share].sequence->run(attend.run);
  if (!fresh_[share]) fresh_[share] = attend.attention().Start();
  return *fresh_[share];
}

// Whether the attention is among those whose weights the share asks for.
bool StackPass::WantsWeights(const Share& share, const Attend& attend) const {
  return share.weights != nullptr && stack_.gives_weights(attend) &&
         (share.choice == nullptr || IsChosen(*share.choice, attend.index));
}

// A place for the attention's weights, if it gives any.
void StackPass::AskForWeights(int share, const Attend& attend, const AttentionRun& run,
                              AttentionRows& rows) const {
  const Part& of = part(share, attend.set);
  LayerWeights& layer = shares_[share].weights->emplace_back(
      LayerWeights{.heads = attend.attention().weighing_heads(),
                   .cross = attend.weighs_source(),
                   .rows = of.count,
                   .keys = attend.weighs_source() ? run.tokens() : of.first + of.count});
  if (layer.heads == 0) return;
  layer.weights.resize(layer.heads * layer.rows * layer.keys);
  rows.weights = layer.weights.data();
  rows.weight_keys = layer.keys;
}

// Of its weights only what is asked for stays.
void StackPass::EndAttention() {
  const Attend& attend = stack_.attentions()[phase().attend];
  for (const Share& share : shares_) {
    if (!share.dropped && share.choice != nullptr && WantsWeights(share, attend))
      Keep(*share.choice, &share.weights->back(), stack_.sets()[attend.set].front);
  }
  fresh_.clear();
}

AttentionRows StackPass::RowsOf(int share, const Attend& attend, bool source) const {
  const Part& of = part(share, attend.set);
  AttentionRows rows = RowsOf(attend, of.row, source ? 0 : of.count);
  rows.first = of.first;
  rows.held = attend.lends;
  if (attend.lender != Stack::kItself) rows.source_count = 0;
  if (attend.releases) rows.released = rows.count;
  if (attend.cross()) rows.source_count = source ? part(share, attend.source).count : 0;
  if (const auto& columns = stack_.sets()[attend.set].columns) rows.columns = columns(shares_[share].size);
  const int read = attend.cross() ? attend.source : attend.set;
  const auto types = [&](int set) {
    return stack_.sets()[set].typed ? sets_[set].types.data() + part(share, set).row : nullptr;
  };
  rows.types = types(attend.set);
  rows.source_types = types(read);
  if (attend.attention().labels().kind == RowLabel::kNone) return rows;
  const auto labels = [&](int set) {
    const Part& labelled = part(share, set);
    return labelled.labelled ? &sets_[set].labels[labelled.row] : nullptr;
  };
  rows.labels = labels(attend.set);
  if (attend.cross()) rows.source_labels = labels(attend.source);
  return rows;
}

// Rows of a set that read themselves.
AttentionRows StackPass::RowsOf(const Attend& attend, int64_t row, int64_t count) const {
  AttentionRows rows;
  rows.count = rows.source_count = count;
  rows.input = attend.sublayer->Input(x(attend.set).Rows(row, count));
  rows.layer = attend.sublayer.get();
  rows.out =
      workspace_->sets[attend.set].attended.rows().Slice(row, count).Cols(0, attend.attention().out_width());
  return rows;
}

void StackPass::KeepRows() const {
  for (int s = 0; s < std::ssize(shares_); ++s) {
    const Share& share = shares_[s];
    if (share.dropped) continue;
    if (stack_.kept_ids() > 0) share.sequence->KeepIds(share.ids);
    for (int set = 0; set < std::ssize(sets_); ++set) {
      const Part& of = part(s, set);
      if (stack_.sets()[set].kept > 0) share.sequence->KeepRows(set, x(set).Rows(of.row, of.count));
    }
  }
}

void StackPass::Drop(int share) {
  shares_[share].dropped = true;
  attention_.Drop(share);
}

}  // namespace heed
