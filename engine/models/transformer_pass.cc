#include "engine/models/transformer_pass.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/log/check.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

// Rows a thread should have before threads stop sharing the columns of every product and take rows of their
// own.
constexpr int64_t kRowsOfATeamOfOne = 64;
// Rows that the head answers at a time: bounds the memory of a large vocabulary's logits.
constexpr int64_t kAnswerRows = 64;

// Multiply-adds below which sharing the work among threads costs more than it saves: the caller does it
// alone.
constexpr double kAlone = 1 << 20;

void ScaleToLengthOne(float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  double length = std::max(std::sqrt(sum), 1e-12);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(x[i] / length);
}

}  // namespace

TransformerPass::TransformerPass(const Transformer& model, std::vector<Work>* batch)
    : model_(model), precision_(model.info().precision) {
  bool pooled = model.head().pooling != Pooling::kNone;
  for (Work& work : *batch) {
    auto* sequence = static_cast<TransformerSequence*>(work.sequence);
    int64_t row = static_cast<int64_t>(ids_.size()), count = static_cast<int64_t>(work.tokens.size());
    CHECK_GT(count, 0);
    CHECK(model.info().max_tokens == 0 || sequence->next() + count <= model.info().max_tokens);
    for (int64_t i = 0; i < count; ++i) positions_.push_back(sequence->next() + i);
    ids_.insert(ids_.end(), work.tokens.begin(), work.tokens.end());
    int share = static_cast<int>(shares_.size());
    shares_.push_back({&work, sequence, row, count});
    if (pooled && !work.wanted.empty() && !work.more) answers_.push_back({share, 0, row});
    if (!pooled) {
      for (int32_t i : work.wanted) answers_.push_back({share, i, row + i});
    }
  }
  longest_first_.resize(shares_.size());
  std::iota(longest_first_.begin(), longest_first_.end(), 0);
  auto scores = [&](int s) { return shares_[s].count * (shares_[s].sequence->next() + shares_[s].count); };
  std::stable_sort(longest_first_.begin(), longest_first_.end(),
                   [&](int a, int b) { return scores(a) > scores(b); });
  for (int s : longest_first_) score_count_ += static_cast<double>(scores(s));
  workspace_ = model.workspaces().Take(model.stack(), precision_, static_cast<int64_t>(ids_.size()),
                                       std::min<int64_t>(kAnswerRows, static_cast<int64_t>(answers_.size())),
                                       model.info().output_width);
}

TransformerPass::~TransformerPass() { model_.workspaces().Return(std::move(workspace_)); }

void TransformerPass::Drop(int i) { shares_[i].dropped = true; }

bool TransformerPass::Advance(Threads& threads) {
  Workspaces::AddThreads(*workspace_, model_.stack(), precision_, threads.count());
  RunProgram(threads);
  if (step_ < model_.stack().steps.size()) {
    Attend(threads);
    ++step_;
    return true;
  }
  if (model_.head().pooling != Pooling::kNone) Pool(threads);
  AnswerAll(threads);
  for (Share& share : shares_) share.sequence->Take(share.count);
  return false;
}

RowBlock TransformerPass::Block(Team& team, int thread, int buffers, int64_t first, int64_t count) const {
  Matrix<float> x = workspace_->x.rows().As<float>();
  return {team, workspace_->scratch[thread], *workspace_->blocks[buffers], x.Rows(first, count)};
}

// Multiply-adds of the next program, a row.
double TransformerPass::ProgramCost() const {
  const std::vector<Step>& steps = model_.stack().steps;
  const Step& step =
      steps[step_ == 0 ? 0 : step_ - 1];  // layers are alike: its products stand for the next one's
  return step.attention.multiply_adds() +
         (step.feed_forward ? step.feed_forward->feed_forward().multiply_adds() : 0);
}

// Little to do: the caller alone. Few rows: all threads are one team. Many: blocks of equal size, a multiple
// of the threads in number.
void TransformerPass::RunProgram(Threads& threads) {
  int64_t rows = static_cast<int64_t>(ids_.size()), count = threads.count();
  if (rows <= kMaxBlockRows && static_cast<double>(rows) * ProgramCost() <= kAlone) {
    Team alone;
    RowBlock block = Block(alone, 0, 0, 0, rows);
    return Program(block, 0);
  }
  if (rows <= std::min(kMaxBlockRows, kRowsOfATeamOfOne * count)) {
    threads.RunTeam([&](Team& team) {
      RowBlock block = Block(team, team.rank(), 0, 0, rows);
      Program(block, 0);
    });
    return;
  }
  int64_t turns = (rows + count * kMaxBlockRows - 1) / (count * kMaxBlockRows);
  int64_t size = ((rows + turns * count - 1) / (turns * count) + 7) / 8 * 8;
  threads.RunTasks((rows + size - 1) / size, [&](int64_t i, int thread) {
    Team alone;
    RowBlock block = Block(alone, thread, thread, i * size, std::min(size, rows - i * size));
    Program(block, i * size);
  });
}

void TransformerPass::Program(RowBlock& block, int64_t first) const {
  const Stack& stack = model_.stack();
  if (step_ == 0) {
    ForRows(block, [&](int64_t begin, int64_t count) {
      stack.embedding.Apply(std::span(ids_).subspan(first + begin, count),
                            std::span(positions_).subspan(first + begin, count), block.x.Rows(begin, count));
    });
  } else {
    const Step& done = stack.steps[step_ - 1];
    done.attention.Close(block, workspace_->attended.rows()
                                    .Slice(first, block.rows())
                                    .Cols(0, done.attention.attention().out_width()));
    if (done.feed_forward) done.feed_forward->Run(block);
  }
  if (step_ < stack.steps.size()) {
    const AttentionSublayer& next = stack.steps[step_].attention;
    next.Open(block, workspace_->products.rows().Slice(first, block.rows()).Cols(0, next.products_width()));
  }
}

void TransformerPass::Attend(Threads& threads) {
  const AttentionSublayer& sublayer = model_.stack().steps[step_].attention;
  const Attention& attention = sublayer.attention();
  bool encoder = model_.info().architecture == Architecture::kEncoder;
  std::vector<std::unique_ptr<AttentionRun>> fresh(encoder ? shares_.size() : 0);
  for (auto& run : fresh) run = attention.Start();
  std::vector<Rows> products = sublayer.Split(workspace_->products.rows());
  Rows attended = workspace_->attended.rows().Cols(0, attention.out_width());
  auto task = [&](int64_t i, int thread) {
    int share = longest_first_[i / attention.tasks()];
    if (shares_[share].dropped) return;
    AttentionRun& run = encoder ? *fresh[share] : shares_[share].sequence->run(step_);
    AttendOne(shares_[share], run, products, attended, static_cast<int>(i % attention.tasks()),
              workspace_->scratch[thread]);
  };
  const int64_t tasks = static_cast<int64_t>(shares_.size()) * attention.tasks();
  if (score_count_ * static_cast<double>(attention.out_width()) > kAlone)
    return threads.RunTasks(tasks, task);
  for (int64_t i = 0; i < tasks; ++i) task(i, 0);
}

void TransformerPass::AttendOne(const Share& share, AttentionRun& run, const std::vector<Rows>& products,
                                const Rows& attended, int task, Scratch& scratch) const {
  Rows* own = scratch.Take<Rows>(products.size());
  for (size_t p = 0; p < products.size(); ++p) own[p] = products[p].Slice(share.row, share.count);
  AttentionRows rows;
  rows.first = share.sequence->next();
  rows.count = rows.source_count = share.count;
  rows.complete = model_.info().architecture == Architecture::kEncoder;
  rows.products = own;
  rows.out = attended.Slice(share.row, share.count);
  run.Extend(rows, task, scratch);
  scratch.Reset();
}

void TransformerPass::Pool(Threads& threads) {
  Matrix<float> x = workspace_->x.rows().As<float>();
  const Stack& stack = model_.stack();
  threads.RunTasks(static_cast<int64_t>(shares_.size()), [&](int64_t s, int thread) {
    const Share& share = shares_[s];
    Scratch& scratch = workspace_->scratch[thread];
    float* row = scratch.Take<float>(x.cols);
    for (int64_t r = share.row; r < share.row + share.count && !share.dropped; ++r) {
      if (stack.norm) stack.norm->Apply(x.Rows(r, 1), {DType::kF32, row, 1, x.cols, x.cols});
      share.sequence->Pool(model_.head().pooling, stack.norm ? row : x.row(r));
    }
    scratch.Reset();
  });
}

void TransformerPass::AnswerAll(Threads& threads) {
  if (answers_.empty()) return;
  auto answer = [&](Team& team) {
    for (int64_t first = 0; first < static_cast<int64_t>(answers_.size()); first += kAnswerRows) {
      int64_t count = std::min(kAnswerRows, static_cast<int64_t>(answers_.size()) - first);
      RowBlock block{team, workspace_->scratch[team.rank()], *workspace_->blocks[0],
                     workspace_->answers.First(count).As<float>()};
      AnswerBlock(block, first);
    }
  };
  const auto& weights = model_.head().weights;
  const double cost = weights ? static_cast<double>(weights->in()) * static_cast<double>(weights->out()) : 0;
  if (static_cast<double>(answers_.size()) * cost > kAlone) return threads.RunTeam(answer);
  Team alone;
  answer(alone);
}

// Gathers the rows, applies the final norm and the head, and lets each work read its own.
void TransformerPass::AnswerBlock(RowBlock& block, int64_t first) {
  const OutputHead& head = model_.head();
  Matrix<float> x = workspace_->x.rows().As<float>();
  const std::optional<Norm>& norm = model_.stack().norm;
  Rows input = !head.weights                                  ? workspace_->outputs.First(block.rows())
               : head.weights->precision() == Precision::kF32 ? block.buffers.result.First(block.rows())
                                                              : block.buffers.input.First(block.rows());
  ForRows(block, [&](int64_t begin, int64_t count) {
    for (int64_t r = begin; r < begin + count; ++r) {
      const Answer& answer = answers_[first + r];
      Matrix<const float> row = x.Rows(answer.row, 1);
      if (head.pooling != Pooling::kNone) {
        shares_[answer.share].sequence->Pooled(head.pooling, block.x.row(r));
        row = block.x.Rows(r, 1);
      }
      if (norm && head.pooling == Pooling::kNone)
        norm->Apply(row, input.Slice(r, 1));
      else
        Convert({DType::kF32, const_cast<float*>(row.data), 1, row.cols, row.stride}, input.Slice(r, 1));
    }
  });
  Rows outputs = workspace_->outputs.First(block.rows());
  if (head.weights) Linear(block, input, *head.weights, {.out = outputs});
  ReadBlock(block.team, outputs, first, block.rows());
  block.team.Barrier();
}

// A work's rows are read by one member only, in order.
void TransformerPass::ReadBlock(const Team& team, const Rows& outputs, int64_t first, int64_t count) const {
  Matrix<float> rows = outputs.As<float>();
  for (int64_t r = 0; r < count; ++r) {
    const Answer& answer = answers_[first + r];
    const Share& share = shares_[answer.share];
    if (answer.share % team.size() != team.rank() || share.dropped) continue;
    if (model_.head().normalize) ScaleToLengthOne(rows.row(r), model_.info().output_width);
    share.work->read(answer.index, {rows.row(r), static_cast<size_t>(model_.info().output_width)});
  }
}

}  // namespace heed
