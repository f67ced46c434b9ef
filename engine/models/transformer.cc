#include "engine/models/transformer.h"

#include <algorithm>
#include <cmath>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "engine/models/transformer_pass.h"

namespace heed {

int64_t OutputHead::bytes() const {
  int64_t sum = 0;
  for (const HeadLayer& layer : layers) sum += layer.weights.bytes();
  return sum + (clusters ? clusters->bytes() : 0);
}

double OutputHead::multiply_adds() const {
  double sum = 0;
  for (const HeadLayer& layer : layers)
    sum += static_cast<double>(layer.weights.in()) * static_cast<double>(layer.weights.out());
  return sum + (clusters ? clusters->multiply_adds() : 0);
}

int64_t OutputHead::width(int64_t rows) const {
  return clusters ? clusters->tokens() : layers.empty() ? rows : layers.back().weights.out();
}

std::optional<Precision> OutputHead::reads_in() const {
  if (clusters) return clusters->precision();
  if (layers.empty()) return std::nullopt;
  return layers.front().weights.precision();
}

int64_t OutputHead::hidden() const {
  int64_t widest = clusters ? clusters->hidden() : 0;
  for (size_t i = 1; i < layers.size(); ++i) widest = std::max(widest, layers[i].weights.in());
  return widest;
}

TransformerSequence::TransformerSequence(const Transformer& model)
    : model_(&model), ids_(model.stack().kept_ids(), sizeof(int32_t)) {
  if (model.head().pooling != Pooling::kNone) pooled_.assign(model.stack().width(), 0.0);
  for (const Stack::Attend& attend : model.stack().attentions()) {
    if (model.stack().keeps_run(attend)) runs_.push_back(attend.attention().Start());
  }
  for (const RowSet& set : model.stack().sets())
    rows_.emplace_back(set.kept, set.width * SizeOf(DType::kF32));
}

TransformerSequence::TransformerSequence(const TransformerSequence& other)
    : Sequence(other),
      model_(other.model_),
      source_tokens_(other.source_tokens_),
      ids_(other.ids_),
      rows_(other.rows_),
      pooled_(other.pooled_),
      pooled_rows_(other.pooled_rows_),
      found_(other.found_) {
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
  if (SeeksToken(model_->head().pooling)) archive.Number(found_, 0, 1);
  archive.Bytes(pooled_.data(), static_cast<int64_t>(pooled_.size() * sizeof(double)));
  ArchiveKept(archive);
  const Stack& stack = model_->stack();
  for (const Stack::Attend& attend : stack.attentions()) {
    if (!stack.keeps_run(attend)) continue;
    AttentionRun& run = *runs_[attend.run];
    run.Archive(archive);
    const int64_t held = run.tokens(),
                  taken = attend.cross() ? source_tokens_ : stack.sets()[attend.set].count.exact({tokens_});
    if (archive.restoring() && held != taken) {
      archive.Fail(Invalid("the state's layers hold ", held, " tokens, not ", taken));
    }
  }
}

void TransformerSequence::ArchiveKept(StateArchive& archive) {
  const Stack& stack = model_->stack();
  const auto kept = [&](KeptRows& rows, int64_t most, int64_t came) {
    if (most == 0) return;
    rows.Archive(archive);
    if (archive.restoring() && rows.count() != std::min(most, came))
      archive.Fail(Invalid("the state keeps ", rows.count(), " rows, not ", std::min(most, came)));
  };
  kept(ids_, stack.kept_ids(), tokens_);
  const auto known = [&](int32_t id) { return id >= 0 && id < model_->info().vocab_size; };
  if (archive.restoring() && archive.status().ok() && !std::ranges::all_of(ids_before(), known))
    archive.Fail(Invalid("the state keeps an id that is not below ", model_->info().vocab_size));
  for (size_t set = 0; set < rows_.size(); ++set) {
    const RowSet& of = stack.sets()[set];
    if (of.kept > 0) kept(rows_[set], of.kept, of.count.exact({tokens_}));
  }
}

std::span<const int32_t> TransformerSequence::ids_before() const {
  return {static_cast<const int32_t*>(ids_.rows()), static_cast<size_t>(ids_.count())};
}

Matrix<const float> TransformerSequence::rows_before(int set) const {
  const int64_t width = model_->stack().sets()[set].width;
  return {static_cast<const float*>(rows_[set].rows()), rows_[set].count(), width, width};
}

void TransformerSequence::KeepIds(std::span<const int32_t> ids) {
  ids_.Take(ids.data(), sizeof(int32_t), std::ssize(ids));
}

void TransformerSequence::KeepRows(int set, const Matrix<float>& rows) {
  rows_[set].Take(rows.data, rows.stride * SizeOf(DType::kF32), rows.rows);
}

void TransformerSequence::Pool(Pooling pooling, const float* row, bool sought) {
  const bool first = pooled_rows_++ == 0;
  const bool sums = pooling == Pooling::kMean || pooling == Pooling::kMeanSqrtLen;
  const bool keeps = pooling == Pooling::kLast || (pooling == Pooling::kFirst && first) ||
                     (pooling == Pooling::kMax && first) || (SeeksToken(pooling) && (sought || found_ == 0));
  const auto weight = static_cast<double>(pooling == Pooling::kWeightedMean ? pooled_rows_ : 1);
  if (keeps) {
    std::copy_n(row, pooled_.size(), pooled_.begin());
  } else if (sums || pooling == Pooling::kWeightedMean) {
    for (size_t i = 0; i < pooled_.size(); ++i) pooled_[i] += weight * row[i];
  } else if (pooling == Pooling::kMax) {
    for (size_t i = 0; i < pooled_.size(); ++i)
      pooled_[i] = std::isnan(row[i]) || row[i] > pooled_[i] ? row[i] : pooled_[i];
  }
  if (SeeksToken(pooling) && sought) found_ = 1;
}

void TransformerSequence::Pooled(Pooling pooling, float* out) const {
  const auto n = static_cast<double>(std::max<int64_t>(pooled_rows_, 1));
  const double factor = pooling == Pooling::kMean           ? 1 / n
                        : pooling == Pooling::kMeanSqrtLen  ? 1 / std::sqrt(n)
                        : pooling == Pooling::kWeightedMean ? 2 / (n * (n + 1))
                                                            : 1;
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
  // Of tokens, pooled rows, the source's, and whether a token was found.
  const int64_t numbers = 2 + (reads_sources() ? 1 : 0) + (SeeksToken(head_.pooling) ? 1 : 0);
  return numbers * kCounter + pooled + stack_.StateBytes({tokens, source}, labelled);
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
