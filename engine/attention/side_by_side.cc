#include "engine/attention/side_by_side.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"

namespace heed {
namespace {

class Run : public AttentionRun {
 public:
  explicit Run(const SideBySideAttention& attention) : attention_(&attention) {
    for (const HeadsOfAKind& kind : attention.kinds()) runs_.push_back(kind.attention->Start());
  }
  Run(const Run& other) : attention_(other.attention_) {
    for (const auto& run : other.runs_) runs_.push_back(run->Clone());
  }
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override;
  int64_t tokens() const override { return runs_.front()->tokens(); }

 private:
  void DoOf(size_t kind, int64_t column, const AttentionRows& rows, int stage, int64_t task,
            Scratch& scratch);

  const SideBySideAttention* attention_;
  std::vector<std::unique_ptr<AttentionRun>> runs_;  // by kind
  std::vector<std::vector<AttentionStage>> stages_;  // by kind, of the rows at hand
};

// A stage has the tasks of all kinds, one kind's after another's.
std::vector<AttentionStage> Run::Begin(const AttentionRows& rows) {
  std::vector<AttentionStage> all;
  stages_.clear();
  for (const auto& run : runs_) {
    const std::vector<AttentionStage>& own = stages_.emplace_back(run->Begin(rows));
    all.resize(std::max(all.size(), own.size()));
    for (size_t i = 0; i < own.size(); ++i) {
      all[i].tasks += own[i].tasks;
      all[i].cost = std::max(all[i].cost, own[i].cost);
    }
  }
  return all;
}

void Run::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  int64_t column = 0;
  for (size_t kind = 0; kind < runs_.size(); ++kind) {
    const int64_t tasks = stage < std::ssize(stages_[kind]) ? stages_[kind][stage].tasks : 0;
    if (task < tasks) return DoOf(kind, column, rows, stage, task, scratch);
    task -= tasks;
    column += attention_->kinds()[kind].attention->out_width();
  }
}

void Run::DoOf(size_t kind, int64_t column, const AttentionRows& rows, int stage, int64_t task,
               Scratch& scratch) {
  const HeadsOfAKind& heads = attention_->kinds()[kind];
  std::vector<Rows> products;
  for (const HeadsOfAKind::Columns& columns : heads.products)
    products.push_back(rows.products[columns.product].Cols(columns.first, columns.count));
  AttentionRows own = rows;
  own.products = products.data();
  own.out = rows.out.Cols(column, heads.attention->out_width());
  runs_[kind]->Do(own, stage, task, scratch);
}

void Run::Archive(StateArchive& archive) {
  for (const auto& run : runs_) {
    if (!archive.status().ok()) return;
    run->Archive(archive);
    if (archive.restoring() && archive.status().ok() && run->tokens() != tokens())
      archive.Fail(Invalid("the state's heads have ", tokens(), " and ", run->tokens(), " tokens"));
  }
}

}  // namespace

SideBySideAttention::SideBySideAttention(std::vector<HeadsOfAKind> kinds, std::vector<Product> products)
    : kinds_(std::move(kinds)) {
  products_ = std::move(products);
  for (const HeadsOfAKind& kind : kinds_) {
    out_width_ += kind.attention->out_width();
    decode_ = std::max(decode_, kind.attention->decode());
    data_dependent_ = data_dependent_ || kind.attention->data_dependent();
    constant_bytes_ += kind.attention->constant_bytes();
  }
}

std::unique_ptr<AttentionRun> SideBySideAttention::Start() const { return std::make_unique<Run>(*this); }

int64_t SideBySideAttention::StateBytes(int64_t tokens) const {
  int64_t sum = 0;
  for (const HeadsOfAKind& kind : kinds_) sum += kind.attention->StateBytes(tokens);
  return sum;
}

double SideBySideAttention::Cost(int64_t rows, int64_t tokens) const {
  double sum = 0;
  for (const HeadsOfAKind& kind : kinds_) sum += kind.attention->Cost(rows, tokens);
  return sum;
}

int64_t SideBySideAttention::ScratchBytes() const {
  int64_t most = 0;
  for (const HeadsOfAKind& kind : kinds_) most = std::max(most, kind.attention->ScratchBytes());
  return most;
}

}  // namespace heed
