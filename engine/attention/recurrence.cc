#include "engine/attention/recurrence.h"

#include <algorithm>

#include "engine/base/round.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 40;
constexpr auto kFloat = static_cast<int64_t>(sizeof(float));

class Run : public AttentionRun {
 public:
  explicit Run(const RecurrentAttention& attention)
      : attention_(&attention), state_(Buffer::Zeros(attention.sizes().state * kFloat)) {}
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override;
  int64_t tokens() const override { return tokens_; }

 private:
  struct Stage {
    Range part;
    int step;
  };

  const RecurrentAttention* attention_;
  int64_t tokens_ = 0;
  Buffer state_;
  // Of the rows at hand.
  std::vector<Stage> stages_;
  Buffer work_;  // of one piece
};

std::vector<AttentionStage> Run::Begin(const AttentionRows& rows) {
  constexpr int64_t kPiece = RecurrentAttention::kPiece;
  tokens_ += rows.count;
  stages_.clear();
  std::vector<AttentionStage> stages;
  for (int64_t row = 0, end; row < rows.count; row = end) {
    end = std::min(rows.count, row + kPiece);
    int step = 0;
    for (const AttentionStage& stage : attention_->Steps(end - row)) {
      stages_.push_back({{row, end}, step++});
      stages.push_back(stage);
    }
  }
  if (attention_->sizes().work == 0 || rows.count == 0) return stages;
  work_ = Buffer::Lasting(std::min(kPiece, rows.count) * attention_->work_pitch() * kFloat);
  stages.push_back({1, 0});  // lets it go
  return stages;
}

void Run::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  if (stage == std::ssize(stages_)) {
    work_ = Buffer();
    return;
  }
  const auto& [part, step] = stages_[stage];
  const Matrix<float> work{work_.as<float>(), part.size(), attention_->sizes().work,
                           attention_->work_pitch()};
  attention_->Do({rows, part, tokens_ - rows.count + part.begin, work, state_.as<float>()}, step, task,
                 scratch);
}

void Run::Archive(StateArchive& archive) {
  archive.Number(tokens_, 0, kMostTokens);
  archive.Bytes(state_, static_cast<int64_t>(state_.size()));
}

}  // namespace

std::unique_ptr<AttentionRun> RecurrentAttention::Start() const { return std::make_unique<Run>(*this); }

int64_t RecurrentAttention::StateBytes(int64_t) const {
  return static_cast<int64_t>(sizeof(int64_t)) + sizes_.state * kFloat;
}

// No power of two.
int64_t RecurrentAttention::work_pitch() const {
  return sizes_.work == 0 ? 0 : RoundUp(sizes_.work, 32) + 16;
}

int64_t RecurrentAttention::PassBytes() const { return kPiece * work_pitch() * kFloat; }

double RecurrentAttention::Cost(int64_t rows, int64_t) const {
  return static_cast<double>(rows) * sizes_.row_cost;
}

Range RecurrentAttention::FewRows(int64_t rows, int64_t task) {
  return {task * kFewRows, std::min(rows, (task + 1) * kFewRows)};
}

AttentionStage RecurrentAttention::ByRows(int64_t rows, double row_cost) {
  return {Quotient(rows, kFewRows), static_cast<double>(std::min(rows, kFewRows)) * row_cost};
}

void RequireCausal(const AttentionSetting& setting, JsonFields& fields) {
  if (setting.cross) fields.Fail("this attention reads no source");
  if (!setting.causal) fields.Fail("this attention is a decoder's: each row sees those before it");
}

}  // namespace heed
