#include "engine/models/transformer.h"

#include <algorithm>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "engine/models/transformer_pass.h"

namespace heed {

TransformerSequence::TransformerSequence(const Transformer& model) {
  if (model.head().pooling != Pooling::kNone) pooled_.assign(model.stack().widths.width, 0.0);
  if (model.info().architecture == Architecture::kEncoder) return;
  for (const Step& step : model.stack().steps) runs_.push_back(step.attention.attention().Start());
}

std::unique_ptr<Sequence> TransformerSequence::Clone() const {
  std::unique_ptr<TransformerSequence> clone(new TransformerSequence);
  clone->tokens_ = tokens_;
  clone->pooled_ = pooled_;
  clone->pooled_rows_ = pooled_rows_;
  for (const auto& run : runs_) clone->runs_.push_back(run->Clone());
  return clone;
}

void TransformerSequence::Archive(StateArchive& archive) {
  constexpr int64_t kMost = int64_t{1} << 40;
  archive.Number(tokens_, 0, kMost);
  archive.Number(pooled_rows_, 0, kMost);
  archive.Bytes(pooled_.data(), static_cast<int64_t>(pooled_.size() * sizeof(double)));
  for (const auto& run : runs_) {
    run->Archive(archive);
    if (archive.restoring() && run->tokens() != tokens_) {
      archive.Fail(Invalid("the state's layers hold ", run->tokens(), " tokens, not ", tokens_));
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

Transformer::Transformer(ModelInfo info, Stack stack, OutputHead head, std::unique_ptr<Weights> weights)
    : stack_(std::move(stack)), head_(std::move(head)), weights_(std::move(weights)) {
  info_ = std::move(info);
}

std::unique_ptr<Sequence> Transformer::Start() const { return std::make_unique<TransformerSequence>(*this); }

std::unique_ptr<Pass> Transformer::Begin(std::vector<Work>* batch) const {
  return std::make_unique<TransformerPass>(*this, batch);
}

int64_t Transformer::StateBytes(int64_t tokens) const {
  int64_t sum = 0, largest = 0;
  for (const Step& step : stack_.steps) {
    int64_t bytes = step.attention.attention().StateBytes(tokens);
    sum += bytes;
    largest = std::max(largest, bytes);
  }
  int64_t pooled =
      head_.pooling == Pooling::kNone ? 0 : stack_.widths.width * static_cast<int64_t>(sizeof(double));
  int64_t counters = 2 * static_cast<int64_t>(sizeof(int64_t));  // of tokens and of pooled rows
  return counters + pooled + (info_.architecture == Architecture::kEncoder ? largest : sum);
}

double Transformer::Cost(int64_t n) const {
  double head = head_.weights ? static_cast<double>(head_.weights->in()) * head_.weights->out() : 0;
  return stack_.multiply_adds(n) + head * (head_.pooling == Pooling::kNone ? n : 1);
}

}  // namespace heed
