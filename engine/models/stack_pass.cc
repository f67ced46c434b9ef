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
    : stack_(stack), precision_(precision), workspaces_(workspaces) {}

StackPass::~StackPass() {
  if (workspace_) workspaces_.Return(std::move(workspace_));
}

void StackPass::Reserve(int64_t rows) {
  ids_.reserve(rows);
  positions_.reserve(rows);
}

void StackPass::Add(Share share, std::span<const int32_t> ids, std::span<const int32_t> labels) {
  share.row = rows();
  share.count = std::ssize(ids);
  share.labelled = !labels.empty();
  if (share.labelled) {
    CHECK_EQ(labels.size(), ids.size());
    labels_.reserve(ids_.capacity());
    labels_.resize(rows(), RowPlaces::kNoLabel);
    labels_.insert(labels_.end(), labels.begin(), labels.end());
    labelled_ += share.count - std::ranges::count(labels, 0);
  }
  for (int64_t i = 0; i < share.count; ++i) positions_.push_back(share.first + i);
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  shares_.push_back(share);
}

void StackPass::Begin(StackPass* source, int64_t answers, int64_t output_width) {
  source_ = source;
  if (!labels_.empty()) labels_.resize(rows(), RowPlaces::kNoLabel);
  workspace_ = workspaces_.Take(stack_, precision_,
                                {.rows = rows(),
                                 .source_rows = source ? source->rows() : 0,
                                 .answers = answers,
                                 .output_width = output_width});
}

bool StackPass::Advance(Threads& threads, Turn& turn) {
  while (turn.room > 0 && RunStage(threads, turn)) {
    switch (stage_) {
      case Stage::kProgram:
        if (step_ == stack_.steps.size()) return false;
        stage_ = source_ && sublayer().cross() ? Stage::kSources : Stage::kAttention;
        if (stage_ == Stage::kAttention) BeginAttention(/*source=*/false);
        break;
      case Stage::kSources:
        BeginAttention(/*source=*/true);
        stage_ = Stage::kSourceAttention;
        break;
      case Stage::kSourceAttention:
        BeginAttention(/*source=*/false);
        stage_ = Stage::kAttention;
        break;
      case Stage::kAttention:
        KeepChosenWeights();
        fresh_.clear();
        ++step_;
        stage_ = Stage::kProgram;
        return true;
    }
  }
  return true;
}

// True when the stage is done, false when there was no room for all of it.
bool StackPass::RunStage(Threads& threads, Turn& turn) {
  switch (stage_) {
    case Stage::kProgram: {
      const auto program = [&](RowBlock& block, int64_t first) { Program(block, first); };
      const int64_t most = step_ == 0 ? kMaxBlockRows : stack_.BlockRows(step_ - 1);
      if (most == kMaxBlockRows || IsAlone(ProgramCost()))
        return ForBlocks(threads, turn, ProgramCost(), program);
      return ForTeamBlocks(threads, turn, ProgramCost(), most, program);
    }
    case Stage::kSources:
      return OpenSources(threads, turn);
    case Stage::kSourceAttention:
    case Stage::kAttention:
      return attention_.Advance(threads, turn, workspace_->scratch);
  }
  LOG(FATAL) << "no such stage";
}

bool StackPass::Normalize(Threads& threads, Turn& turn) {
  if (!stack_.norm) return true;
  const double row_cost = kRowWise * static_cast<double>(stack_.widths.width);
  return ForBlocks(threads, turn, row_cost, [&](RowBlock& block, int64_t) {
    ForRows(block, [&](int64_t first, int64_t count) {
      const Matrix<float> x = block.x.Rows(first, count);
      stack_.norm->Apply(x, {DType::kF32, x.data, x.rows, x.cols, x.stride});
    });
  });
}

RowBlock StackPass::Block(Team& team, int thread, int buffers, int64_t first, int64_t count) const {
  return {team, workspace_->scratch[thread], *workspace_->blocks[buffers], x().Rows(first, count)};
}

// Multiply-adds of the next program, a row.
double StackPass::ProgramCost() const {
  const Step& step =
      stack_.steps[step_ == 0 ? 0 : step_ - 1];  // layers are alike: its products stand for the next one's
  const double apart = static_cast<double>(labelled_) / static_cast<double>(rows());
  return step.attention.multiply_adds() + apart * step.attention.apart_multiply_adds() +
         (step.feed_forward ? step.feed_forward->feed_forward().multiply_adds() : 0);
}

bool StackPass::IsAlone(double row_cost) const {
  return rows() <= kMaxBlockRows && static_cast<double>(rows()) * row_cost <= kAlone;
}

// Little to do: the caller alone. Few rows: teams of several threads, each with one block. Many: blocks of
// equal size by one thread each, a multiple of the threads in number.
bool StackPass::ForBlocks(Threads& threads, Turn& turn, double row_cost,
                          absl::FunctionRef<void(RowBlock& block, int64_t first)> f) {
  const int64_t rows = this->rows(), count = threads.count();
  Workspaces::AddThreads(*workspace_, stack_, precision_, rows, threads.count());
  const auto run = [&](Team& team, int64_t thread, int64_t buffers, Range of) {
    RowBlock block = Block(team, static_cast<int>(thread), static_cast<int>(buffers), of.begin, of.size());
    f(block, of.begin);
  };
  const auto by_teams = [&](Team& team, Range members) {
    const auto cut = [&](int64_t thread) { return std::min(rows, (rows + 7) / 8 * thread / count * 8); };
    run(team, members.begin + team.rank(), members.begin, {cut(members.begin), cut(members.end)});
  };
  const int64_t teams = std::max<int64_t>(rows / kRowsOfATeam, 1);
  if (IsAlone(row_cost) || teams < count) {
    Team alone;
    IsAlone(row_cost) ? run(alone, 0, 0, {0, rows}) : threads.RunTeams(static_cast<int>(teams), by_teams);
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

bool StackPass::ForTeamBlocks(Threads& threads, Turn& turn, double row_cost, int64_t most,
                              absl::FunctionRef<void(RowBlock& block, int64_t first)> f) {
  const int64_t rows = this->rows();
  Workspaces::AddThreads(*workspace_, stack_, precision_, rows, threads.count());
  most = std::clamp(static_cast<int64_t>(kTurn * threads.count() / row_cost), kMaxBlockRows, most);
  const int64_t blocks = Quotient(rows, most), size = RoundUp(Quotient(rows, blocks), 8);
  for (; turn.done * size < rows && turn.room > 0; ++turn.done) {
    const int64_t first = turn.done * size, count = std::min(size, rows - first);
    threads.RunTeam([&](Team& team) {
      RowBlock block = Block(team, team.rank(), 0, first, count);
      f(block, first);
    });
    turn.room -= static_cast<double>(count) * row_cost;
  }
  const bool finished = turn.done * size >= rows;
  if (finished) turn.done = 0;
  return finished;
}

void StackPass::Program(RowBlock& block, int64_t first) const {
  if (step_ == 0) {
    ForRows(block, [&](int64_t begin, int64_t count) {
      stack_.embedding.Apply(std::span(ids_).subspan(first + begin, count),
                             std::span(positions_).subspan(first + begin, count), block.x.Rows(begin, count));
    });
  } else {
    const Step& done = stack_.steps[step_ - 1];
    done.attention.Close(block, workspace_->attended.rows()
                                    .Slice(first, block.rows())
                                    .Cols(0, done.attention.attention().out_width()));
    if (done.feed_forward) done.feed_forward->Run(block);
  }
  if (step_ < stack_.steps.size()) {
    const Rows products = workspace_->products.rows().Slice(first, block.rows());
    sublayer().Open(block, PlacesOf(first, block.rows()), products.Cols(0, sublayer().products_width()));
  }
}

RowPlaces StackPass::PlacesOf(int64_t first, int64_t count) const {
  const std::span<const int32_t> labels(labels_);
  return {std::span(positions_).subspan(first, count),
          labels.empty() ? labels : labels.subspan(first, count)};
}

// The keys and values of all sources that this pass takes in.
bool StackPass::OpenSources(Threads& threads, Turn& turn) {
  const Rows products = workspace_->source_products.rows().Cols(0, sublayer().source_products_width());
  return source_->ForBlocks(threads, turn, sublayer().source_multiply_adds(),
                            [&](RowBlock& block, int64_t first) {
                              sublayer().OpenSource(block, products.Slice(first, block.rows()));
                            });
}

// The runs take up their rows, or their sources.
void StackPass::BeginAttention(bool source) {
  const std::vector<Rows> products =
      sublayer().Split(workspace_->products.rows(), workspace_->source_products.rows());
  attention_.Clear(IsAlone(ProgramCost()) ? kAlone : kAloneAwake);
  fresh_.resize(shares_.size());
  for (size_t s = 0; s < shares_.size(); ++s) {
    const Share& share = shares_[s];
    if (share.dropped || (source && share.source < 0)) continue;
    if (!share.sequence && !fresh_[s]) fresh_[s] = sublayer().attention().Start();
    AttentionRun& run = share.sequence ? share.sequence->run(step_) : *fresh_[s];
    AttentionRows rows = RowsOf(share, source);
    if (!source && WantsWeights(share)) AskForWeights(share, run, rows);
    std::vector<Rows> own;
    for (size_t p = 0; p < products.size(); ++p) {
      const bool of_source = sublayer().attention().products()[p].of_source;
      const int64_t first = of_source && source ? source_->shares_[share.source].row : share.row;
      own.push_back(
          products[p].Slice(of_source && !source ? 0 : first, of_source ? rows.source_count : rows.count));
    }
    attention_.Add(static_cast<int>(s), run, rows, own);
  }
}

// Whether this step's attention is among those whose weights the share asks for.
bool StackPass::WantsWeights(const Share& share) const {
  return share.weights != nullptr &&
         (share.choice == nullptr || IsChosen(*share.choice, static_cast<int64_t>(step_)));
}

// A place for the weights of this step's attention, if it gives any.
void StackPass::AskForWeights(const Share& share, const AttentionRun& run, AttentionRows& rows) const {
  const bool cross = sublayer().cross();
  LayerWeights& layer =
      share.weights->emplace_back(LayerWeights{.heads = sublayer().attention().weighing_heads(),
                                               .cross = cross,
                                               .rows = share.count,
                                               .keys = cross ? run.tokens() : share.first + share.count});
  if (layer.heads == 0) return;
  layer.weights.resize(layer.heads * layer.rows * layer.keys);
  rows.weights = layer.weights.data();
  rows.weight_keys = layer.keys;
}

// The step's attention is done: of its weights only what is asked for stays.
void StackPass::KeepChosenWeights() const {
  for (const Share& share : shares_) {
    if (!share.dropped && share.choice != nullptr && WantsWeights(share))
      Keep(*share.choice, &share.weights->back());
  }
}

AttentionRows StackPass::RowsOf(const Share& share, bool source) const {
  AttentionRows rows;
  rows.first = share.first;
  rows.count = source ? 0 : share.count;
  rows.source_count = source ? source_->shares_[share.source].count : sublayer().cross() ? 0 : share.count;
  rows.input = x().Rows(share.row, rows.count);
  rows.layer = &sublayer();
  rows.out =
      workspace_->attended.rows().Slice(share.row, rows.count).Cols(0, sublayer().attention().out_width());
  if (share.labelled && sublayer().attention().labels().kind != RowLabel::kNone)
    rows.labels = &labels_[share.row];
  return rows;
}

void StackPass::Drop(int share) {
  shares_[share].dropped = true;
  attention_.Drop(share);
}

}  // namespace heed
