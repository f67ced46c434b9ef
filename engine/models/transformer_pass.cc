#include "engine/models/transformer_pass.h"

#include <algorithm>

#include "absl/log/check.h"
#include "absl/log/log.h"
#include "engine/ops/rows.h"

namespace heed {

TransformerPass::TransformerPass(const Transformer& model, std::vector<Work>* batch)
    : model_(model), works_(*batch), rows_(model.stack(), model.info().precision, model.workspaces()) {
  Reserve();
  for (Work& work : works_) Add(work);
  rows_.Begin(std::min<int64_t>(kAnswerRows, std::ssize(answers_)), model.info().output_width,
              model.head().hidden());
}

ShareSize TransformerPass::SizeOf(const Work& work) const {
  return {.rows = work.InputRows(model_.info().input),
          .source = std::ssize(work.source),
          .columns = work.columns,
          .first = work.sequence->tokens()};
}

void TransformerPass::Reserve() {
  int64_t wanted = 0;
  std::vector<ShareSize> sizes;
  for (const Work& work : works_) {
    wanted += std::ssize(work.wanted);
    sizes.push_back(SizeOf(work));
  }
  answers_.reserve(model_.head().pooling == Pooling::kNone ? wanted : std::min(wanted, std::ssize(works_)));
  rows_.Reserve(sizes);
}

void TransformerPass::Add(Work& work) {
  const ModelInfo& info = model_.info();
  auto* sequence = static_cast<TransformerSequence*>(work.sequence);
  const ShareSize size = SizeOf(work);
  CHECK_GT(size.rows, 0);
  CHECK_EQ(size.rows * info.input.ids, std::ssize(work.tokens));
  CHECK_EQ(size.rows * info.input.numbers, std::ssize(work.numbers));
  CHECK(work.types.empty() || (info.type_vocab_size > 0 && work.types.size() == work.tokens.size()));
  CHECK(!work.more || info.decode == DecodeClass::kExact);
  CHECK(info.max_tokens == 0 || sequence->next() + size.rows <= info.max_tokens);
  CHECK(info.max_source_tokens == 0 || size.source <= info.max_source_tokens);
  CHECK(work.labels.empty() || info.max_global_tokens > 0 || info.global_input.read);
  if (info.global_input.read) CheckMembership(work);
  CHECK_EQ(size.source > 0, model_.reads_sources() && sequence->source_tokens() == 0);
  const int index = static_cast<int>(rows_.shares().size());
  rows_.Add({.sequence = sequence,
             .weights = work.weights,
             .choice = work.choice,
             .size = size,
             .ids = work.tokens,
             .types = work.types,
             .source = work.source,
             .labels = work.labels,
             .numbers = work.numbers});
  if (work.weights != nullptr) work.weights->clear();
  const int64_t row = rows_.answered(index).row + AnsweredSet().front;
  if (model_.head().pooling == Pooling::kNone) {
    for (int32_t i : work.wanted) answers_.push_back({index, i, row + i});
  } else if (!work.wanted.empty() && !work.more) {
    answers_.push_back({index, 0, row});
  }
}

// Whoever made the work has checked the request.
void TransformerPass::CheckMembership(const Work& work) {
  for (const int32_t label : work.labels)
    CHECK(label >= 0 && label <= std::ssize(work.source)) << "label " << label;
}

const RowSet& TransformerPass::AnsweredSet() const {
  return model_.stack().sets()[model_.stack().answered()];
}

TransformerSequence& TransformerPass::SequenceOf(int work) const {
  return static_cast<TransformerSequence&>(*works_[work].sequence);
}

void TransformerPass::Drop(int i) { rows_.Drop(i); }

bool TransformerPass::Advance(Threads& threads) {
  turn_.room = kTurn * threads.count();
  while (turn_.room > 0) {
    if (!RunStage(threads)) return true;
    stage_ = static_cast<Stage>(static_cast<int>(stage_) + 1);
    if (stage_ == Stage::kDone) break;
  }
  if (stage_ != Stage::kDone) return true;
  rows_.KeepRows();
  for (const Work& work : works_) {
    const ShareSize size = SizeOf(work);
    static_cast<TransformerSequence&>(*work.sequence).Take(size.rows, size.source);
  }
  return false;
}

// True when the stage is done.
bool TransformerPass::RunStage(Threads& threads) {
  switch (stage_) {
    case Stage::kRows:
      return !rows_.Advance(threads, turn_);
    case Stage::kPool:
      return model_.head().pooling == Pooling::kNone || Pool(threads);
    case Stage::kAnswers:
      return AnswerAll(threads);
    case Stage::kDone:
      break;
  }
  LOG(FATAL) << "no such stage";
}

// A round is the next kGrid rows of each work: those of one come in order, by one thread.
bool TransformerPass::Pool(Threads& threads) {
  const Matrix<float> x = rows_.x();
  const OutputHead& head = model_.head();
  const Norm* norm = NormOfRows();
  const bool of_token = head.pooling == Pooling::kLastToken;
  const int64_t skipped = head.pooling == Pooling::kFirst ? 0 : AnsweredSet().front;
  for (; turn_.room > 0; ++turn_.done) {
    const int64_t begin = skipped + turn_.done * kGrid;
    int64_t rows = 0;
    for (int i = 0; i < std::ssize(works_); ++i)
      rows += std::clamp<int64_t>(rows_.answered(i).count - begin, 0, kGrid);
    if (rows == 0) {
      turn_.done = 0;
      return true;
    }
    turn_.room -= kRowWise * static_cast<double>(rows * x.cols);
    threads.RunTasks(std::ssize(works_), [&](int64_t i, int thread) {
      const StackPass::Part& part = rows_.answered(static_cast<int>(i));
      const int64_t end = std::min(part.count, begin + kGrid);
      const bool dropped = rows_.shares()[i].dropped;
      Scratch& scratch = rows_.workspace().scratch[thread];
      float* row = scratch.Take<float>(x.cols);
      for (int64_t r = part.row + begin; r < part.row + end && !dropped; ++r) {
        if (norm != nullptr) norm->Apply(x.Rows(r, 1), {DType::kF32, row, 1, x.cols, x.cols});
        const bool sought = !SeeksToken(head.pooling) ||
                            (works_[i].tokens[r - part.row - skipped] == head.pooling_token) == of_token;
        SequenceOf(static_cast<int>(i)).Pool(head.pooling, norm != nullptr ? row : x.row(r), sought);
      }
      scratch.Reset();
    });
  }
  return false;
}

// That of each row which is pooled, if there is one.
const Norm* TransformerPass::NormOfRows() const {
  const std::optional<Norm>& norm = model_.stack().norm();
  return norm && !model_.head().norm_after_pooling ? &*norm : nullptr;
}

// Multiply-adds of an answer: the head's products, and what reads its numbers.
double TransformerPass::AnswerCost() const {
  return model_.head().multiply_adds() + kRowWise * static_cast<double>(model_.info().output_width);
}

// The end of the answers that there is room for, in whole blocks, and what they cost.
int64_t TransformerPass::TakeAnswers(double* cost) {
  int64_t end = turn_.done;
  while (end < std::ssize(answers_) && *cost < turn_.room) {
    const int64_t count = std::min(kAnswerRows, std::ssize(answers_) - end);
    end += count;
    *cost += static_cast<double>(count) * AnswerCost();
  }
  turn_.room -= *cost;
  return end;
}

bool TransformerPass::AnswerAll(Threads& threads) {
  if (answers_.empty()) return true;
  double cost = 0;
  const int64_t begin = turn_.done, end = TakeAnswers(&cost);
  auto answer = [&](Team& team) {
    for (int64_t first = begin; first < end; first += kAnswerRows) {
      const int64_t count = std::min(kAnswerRows, end - first);
      Workspace& workspace = rows_.workspace();
      RowBlock block{team, workspace.scratch[team.rank()], *workspace.blocks[0],
                     workspace.answers.First(count).As<float>()};
      AnswerBlock(block, first);
    }
  };
  Team alone;
  cost > kAlone ? threads.RunTeam(answer) : answer(alone);
  turn_.done = end < std::ssize(answers_) ? end : 0;
  return turn_.done == 0;
}

// Gathers the rows, applies the final norm and the head, and lets each work read its own.
void TransformerPass::AnswerBlock(RowBlock& block, int64_t first) {
  const OutputHead& head = model_.head();
  const Matrix<float> x = rows_.x();
  const std::optional<Norm>& norm = model_.stack().norm();
  const bool pooled = head.pooling != Pooling::kNone;
  const std::optional<Precision> precision = head.reads_in();
  Rows input = !precision                      ? rows_.workspace().outputs.First(block.rows())
               : *precision == Precision::kF32 ? block.buffers.result.First(block.rows())
                                               : block.buffers.input.First(block.rows());
  if (precision) input = input.Cols(0, x.cols);
  ForRows(block, [&](int64_t begin, int64_t count) {
    for (int64_t r = begin; r < begin + count; ++r) {
      const Answer& answer = answers_[first + r];
      Matrix<const float> row = x.Rows(answer.row, 1);
      if (pooled) {
        SequenceOf(answer.work).Pooled(head.pooling, block.x.row(r));
        row = block.x.Rows(r, 1);
      }
      if (norm && (!pooled || head.norm_after_pooling))
        norm->Apply(row, input.Slice(r, 1));
      else
        Convert({DType::kF32, const_cast<float*>(row.data), 1, row.cols, row.stride}, input.Slice(r, 1));
    }
  });
  const Rows outputs = rows_.workspace().outputs.First(block.rows());
  RunLayers(block, input, outputs);
  ScaleAnswers(block, outputs);
  ReadBlock(block.team, outputs, first, block.rows());
  block.team.Barrier();
}

void TransformerPass::RunLayers(RowBlock& block, Rows input, const Rows& outputs) {
  const OutputHead& head = model_.head();
  if (head.clusters) {
    const RowBuffer* const hidden = rows_.workspace().hidden;
    return head.clusters->Run(block, input, hidden[0].First(block.rows()), hidden[1].First(block.rows()),
                              outputs);
  }
  if (head.reads != Activation::kNone) {
    ForRows(block, [&](int64_t begin, int64_t count) { Activate(head.reads, input.Slice(begin, count)); });
  }
  int at = 1;  // the buffer that the next layer reads
  for (size_t i = 0; i < head.layers.size(); ++i) {
    const HeadLayer& layer = head.layers[i];
    const bool last = i + 1 == head.layers.size();
    const DType type = last ? DType::kF32 : ActivationType(head.layers[i + 1].weights.precision());
    const bool apart = layer.norm && type != DType::kF32;  // norms read floats
    const Rows made = last ? outputs : HiddenRows(block.rows(), i, 1 - at, apart ? DType::kF32 : type);
    if (!apart) at = 1 - at;
    const Rows out = apart ? HiddenRows(block.rows(), i, at, type) : made;
    Linear(block, input, layer.weights, {.out = made, .activation = layer.activation});
    if (layer.norm) {
      ForRows(block, [&](int64_t begin, int64_t count) {
        layer.norm->Apply(made.Slice(begin, count).As<const float>(), out.Slice(begin, count));
      });
    }
    input = out;
  }
}

// What the i-th layer makes, in one of the two buffers.
Rows TransformerPass::HiddenRows(int64_t count, size_t i, int buffer, DType type) {
  Rows rows = rows_.workspace().hidden[buffer].First(count).Cols(0, model_.head().layers[i].weights.out());
  rows.dtype = type;
  rows.stride *= heed::SizeOf(DType::kF32) / heed::SizeOf(type);
  return rows;
}

void TransformerPass::ScaleAnswers(RowBlock& block, const Rows& outputs) const {
  const float scale = model_.head().scale, cap = model_.head().soft_cap;
  if (scale == 1 && cap == 0) return;
  ForRows(block, [&](int64_t begin, int64_t count) {
    const Rows rows = outputs.Slice(begin, count);
    Scale(cap == 0 ? scale : scale / cap, rows.As<float>());
    if (cap == 0) return;
    Activate(Activation::kTanh, rows);
    Scale(cap, rows.As<float>());
  });
}

// A work's rows are read by one member only, in order.
void TransformerPass::ReadBlock(const Team& team, const Rows& outputs, int64_t first, int64_t count) const {
  Matrix<float> rows = outputs.As<float>();
  for (int64_t r = 0; r < count; ++r) {
    const Answer& answer = answers_[first + r];
    if (answer.work % team.size() != team.rank() || rows_.shares()[answer.work].dropped) continue;
    works_[answer.work].read(answer.index, {rows.row(r), static_cast<size_t>(model_.info().output_width)});
  }
}

}  // namespace heed
