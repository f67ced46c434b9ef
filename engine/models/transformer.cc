#include "engine/models/transformer.h"

#include <algorithm>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "engine/models/transformer_pass.h"

namespace heed {

int64_t OutputHead::bytes() const {
  int64_t sum = 0;
  for (const PackedWeights& layer : layers) sum += layer.bytes();
  return sum;
}

double OutputHead::multiply_adds() const {
  double sum = 0;
  for (const PackedWeights& layer : layers)
    sum += static_cast<double>(layer.in()) * static_cast<double>(layer.out());
  return sum;
}

int64_t OutputHead::hidden() const {
  int64_t widest = 0;
  for (size_t i = 1; i < layers.size(); ++i) widest = std::max(widest, layers[i].in());
  return widest;
}

TransformerSequence::TransformerSequence(const Transformer& model) : model_(&model) {
  if (model.head().pooling != Pooling::kNone) pooled_.assign(model.stack().width(), 0.0);
  for (const Stack::Attend& attend : model.stack().attentions()) {
    if (model.stack().sets()[attend.set].remembered) runs_.push_back(attend.attention().Start());
  }
}

TransformerSequence::TransformerSequence(const TransformerSequence& other)
    : Sequence(other),
      model_(other.model_),
      source_tokens_(other.source_tokens_),
      pooled_(other.pooled_),
      pooled_rows_(other.pooled_rows_) {
  for (const auto& run : other.runs_) runs_.push_back(run->Clone());
}

std::unique_ptr<Sequence> TransformerSequence::Clone() const {
  return std::unique_ptr<Sequence>(new TransformerSequence(*this));
}

void TransformerSequence::Archive(StateArchive& archive) {
  constexpr int64_t kMost = int64_t{1} << 40;
  archive.Origin(model_->info().origin);
  archive.Number(tokens_, 0, kMost);
  if (model_->reads_sources()) {
    archive.Number(source_tokens_, 0, kMost);
    if (archive.restoring() && (source_tokens_ == 0) != (tokens_ == 0)) {
      archive.Fail(Invalid("the state holds ", tokens_, " tokens with a source of ", source_tokens_));
    }
  }
  archive.Number(pooled_rows_, 0, kMost);
  archive.Bytes(pooled_.data(), static_cast<int64_t>(pooled_.size() * sizeof(double)));
  for (const Stack::Attend& attend : model_->stack().attentions()) {
    if (!model_->stack().sets()[attend.set].remembered) continue;
    AttentionRun& run = *runs_[attend.index];
    run.Archive(archive);
    const int64_t held = run.tokens(), taken = attend.cross() ? source_tokens_ : tokens_;
    if (archive.restoring() && held != taken) {
      archive.Fail(Invalid("the state's layers hold ", held, " tokens, not ", taken));
    }
  }
}

void TransformerSequence::Pool(Pooling pooling, const float* row) {
  bool keep = pooling == Pooling::kLast || (pooling == Pooling::kFirst && pooled_rows_ == 0);
  for (size_t i = 0; i < pooled_.size(); ++i) {
    if (pooling == Pooling::kMean)
      pooled_[i] += row[i];
    else if (keep)
      pooled_[i] = row[i];
  }
  ++pooled_rows_;
}

void TransformerSequence::Pooled(Pooling pooling, float* out) const {
  double factor =
      pooling == Pooling::kMean ? 1.0 / static_cast<double>(std::max<int64_t>(pooled_rows_, 1)) : 1.0;
  for (size_t i = 0; i < pooled_.size(); ++i) out[i] = static_cast<float>(pooled_[i] * factor);
}

Transformer::Transformer(ModelInfo info, Stack stack, OutputHead head)
    : stack_(std::move(stack)), head_(std::move(head)) {
  info_ = std::move(info);
  stack_.SetHeadReads(head_.hidden());
  for (const RowSet& set : stack_.sets()) reads_sources_ = reads_sources_ || set.input == WorkInput::kSource;
}

std::unique_ptr<Sequence> Transformer::Start() const { return std::make_unique<TransformerSequence>(*this); }

std::unique_ptr<Pass> Transformer::Begin(std::vector<Work>* batch) const {
  return std::make_unique<TransformerPass>(*this, batch);
}

int64_t Transformer::StateBytes(int64_t tokens, int64_t source, int64_t labelled) const {
  constexpr int64_t kCounter = sizeof(int64_t);
  const int64_t pooled =
      head_.pooling == Pooling::kNone ? 0 : stack_.width() * static_cast<int64_t>(sizeof(double));
  const int64_t counters = (reads_sources() ? 3 : 2) * kCounter;  // of tokens, pooled rows, the source's
  // What nobody remembers is gone before the first that a sequence remembers.
  return counters + pooled +
         std::max(stack_.LargestStateBytes({tokens, source}, labelled), stack_.StateBytes({tokens, source}));
}

int64_t Transformer::WorkspaceBytes(const PassSize& size) const {
  WorkspaceSize room{.answers = std::min(TransformerPass::kAnswerRows, size.answers),
                     .output_width = info_.output_width,
                     .hidden_width = head_.hidden()};
  const int64_t works = size.works > 0 ? size.works : size.rows;
  const bool labels = info_.max_global_tokens > 0 || info_.global_input.read;
  int64_t lists = size.answers * TransformerPass::kAnswerBytes;
  for (const RowSet& set : stack_.sets()) {
    room.rows.push_back(set.count.most({size.rows, size.source_rows}, works));
    lists += room.rows.back() *
             (StackPass::RowBytes(set) + (labels && set.takes_labels() ? StackPass::kLabelBytes : 0));
  }
  return lists + Workspaces::Bytes(stack_, info_.precision, room, size.threads);
}

double Transformer::Cost(int64_t n, int64_t source, int64_t labelled) const {
  return stack_.multiply_adds({n, source}, labelled) +
         head_.multiply_adds() * static_cast<double>(Answers(n, 0, source));
}

int64_t Transformer::Answers(int64_t n, int64_t columns, int64_t source) const {
  if (info_.pooled) return 1;
  const RowSet& set = stack_.sets()[stack_.answered()];
  return set.count.exact({.rows = n, .source = source, .columns = columns}) - set.front;
}

}  // namespace heed
