#include "engine/models/transformer_pass.h"

#include <algorithm>
#include <cmath>

#include "absl/log/check.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

// Rows that the head answers at a time: bounds the memory of a large vocabulary's logits.
constexpr int64_t kAnswerRows = 64;

void ScaleToLengthOne(float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  double length = std::max(std::sqrt(sum), 1e-12);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(x[i] / length);
}

}  // namespace

TransformerPass::TransformerPass(const Transformer& model, std::vector<Work>* batch)
    : model_(model), works_(*batch), rows_(model.stack(), model.info().precision, model.workspaces()) {
  for (Work& work : works_) Add(work);
  if (sources_) sources_->Begin(nullptr, 0, 0);
  rows_.Begin(sources_ ? &*sources_ : nullptr,
              std::min<int64_t>(kAnswerRows, static_cast<int64_t>(answers_.size())),
              model.info().output_width);
}

void TransformerPass::Add(Work& work) {
  const ModelInfo& info = model_.info();
  auto* sequence = static_cast<TransformerSequence*>(work.sequence);
  const int64_t count = std::ssize(work.tokens), source = std::ssize(work.source);
  CHECK_GT(count, 0);
  CHECK(!work.more || info.decode == DecodeClass::kExact);
  CHECK(info.max_tokens == 0 || sequence->next() + count <= info.max_tokens);
  CHECK(info.max_source_tokens == 0 || source <= info.max_source_tokens);
  CHECK_EQ(source > 0, model_.encoder().has_value() && sequence->source_tokens() == 0);
  StackPass::Share share;
  share.sequence = info.architecture == Architecture::kEncoder ? nullptr : sequence;
  share.first = sequence->next();
  share.source_keys = sequence->source_tokens() + source;
  if (source > 0) {
    if (!sources_) sources_.emplace(*model_.encoder(), info.precision, model_.encoder_workspaces());
    share.source = static_cast<int>(sources_->shares().size());
    sources_->Add({}, work.source);
  }
  const int index = static_cast<int>(rows_.shares().size());
  const int64_t row = rows_.rows();
  rows_.Add(share, work.tokens);
  if (model_.head().pooling == Pooling::kNone) {
    for (int32_t i : work.wanted) answers_.push_back({index, i, row + i});
  } else if (!work.wanted.empty() && !work.more) {
    answers_.push_back({index, 0, row});
  }
}

TransformerSequence& TransformerPass::SequenceOf(int work) const {
  return static_cast<TransformerSequence&>(*works_[work].sequence);
}

void TransformerPass::Drop(int i) {
  rows_.Drop(i);
  if (rows_.shares()[i].source >= 0) sources_->Drop(rows_.shares()[i].source);
}

bool TransformerPass::Advance(Threads& threads) {
  if (sources_ && !encoded_) {
    encoded_ = !sources_->Advance(threads);
    if (encoded_) sources_->Normalize(threads);
    return true;
  }
  if (rows_.Advance(threads)) return true;
  if (model_.head().pooling != Pooling::kNone) Pool(threads);
  AnswerAll(threads);
  for (const Work& work : works_) {
    static_cast<TransformerSequence&>(*work.sequence).Take(std::ssize(work.tokens), std::ssize(work.source));
  }
  return false;
}

void TransformerPass::Pool(Threads& threads) {
  const Matrix<float> x = rows_.x();
  const Stack& stack = model_.stack();
  threads.RunTasks(std::ssize(works_), [&](int64_t i, int thread) {
    const StackPass::Share& share = rows_.shares()[i];
    Scratch& scratch = rows_.workspace().scratch[thread];
    float* row = scratch.Take<float>(x.cols);
    for (int64_t r = share.row; r < share.row + share.count && !share.dropped; ++r) {
      if (stack.norm) stack.norm->Apply(x.Rows(r, 1), {DType::kF32, row, 1, x.cols, x.cols});
      SequenceOf(static_cast<int>(i)).Pool(model_.head().pooling, stack.norm ? row : x.row(r));
    }
    scratch.Reset();
  });
}

void TransformerPass::AnswerAll(Threads& threads) {
  if (answers_.empty()) return;
  auto answer = [&](Team& team) {
    for (int64_t first = 0; first < static_cast<int64_t>(answers_.size()); first += kAnswerRows) {
      int64_t count = std::min(kAnswerRows, static_cast<int64_t>(answers_.size()) - first);
      Workspace& workspace = rows_.workspace();
      RowBlock block{team, workspace.scratch[team.rank()], *workspace.blocks[0],
                     workspace.answers.First(count).As<float>()};
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
  const Matrix<float> x = rows_.x();
  const std::optional<Norm>& norm = model_.stack().norm;
  Rows input = !head.weights                                  ? rows_.workspace().outputs.First(block.rows())
               : head.weights->precision() == Precision::kF32 ? block.buffers.result.First(block.rows())
                                                              : block.buffers.input.First(block.rows());
  ForRows(block, [&](int64_t begin, int64_t count) {
    for (int64_t r = begin; r < begin + count; ++r) {
      const Answer& answer = answers_[first + r];
      Matrix<const float> row = x.Rows(answer.row, 1);
      if (head.pooling != Pooling::kNone) {
        SequenceOf(answer.work).Pooled(head.pooling, block.x.row(r));
        row = block.x.Rows(r, 1);
      }
      if (norm && head.pooling == Pooling::kNone)
        norm->Apply(row, input.Slice(r, 1));
      else
        Convert({DType::kF32, const_cast<float*>(row.data), 1, row.cols, row.stride}, input.Slice(r, 1));
    }
  });
  Rows outputs = rows_.workspace().outputs.First(block.rows());
  if (head.weights) Linear(block, input, *head.weights, {.out = outputs});
  ReadBlock(block.team, outputs, first, block.rows());
  block.team.Barrier();
}

// A work's rows are read by one member only, in order.
void TransformerPass::ReadBlock(const Team& team, const Rows& outputs, int64_t first, int64_t count) const {
  Matrix<float> rows = outputs.As<float>();
  for (int64_t r = 0; r < count; ++r) {
    const Answer& answer = answers_[first + r];
    if (answer.work % team.size() != team.rank() || rows_.shares()[answer.work].dropped) continue;
    if (model_.head().normalize) ScaleToLengthOne(rows.row(r), model_.info().output_width);
    works_[answer.work].read(answer.index, {rows.row(r), static_cast<size_t>(model_.info().output_width)});
  }
}

}  // namespace heed
