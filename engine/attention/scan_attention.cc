#include "engine/attention/scan_attention.h"

#include <algorithm>
#include <utility>

#include "engine/base/round.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 40;
// Rows that one task attends from, where they are not taken in one after another.
constexpr int64_t kAttending = 8 * kGrid;

class ScanAttention : public Attention {
 public:
  ScanAttention(const AttentionSetting& setting, LinearScan scan, std::vector<Product> products,
                int64_t constant_bytes);

  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override;
  double Cost(int64_t rows, int64_t tokens) const override;
  int64_t ScratchBytes() const override { return scan_.ScratchBytes(); }

  const LinearScan& scan() const { return scan_; }
  int heads() const { return heads_; }
  bool causal() const { return causal_; }

 private:
  LinearScan scan_;
  int heads_;
  bool causal_;
};

class Run : public AttentionRun {
 public:
  explicit Run(const ScanAttention& attention)
      : attention_(&attention), heads_(attention.heads(), attention.scan().NewMemory()) {}
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override;
  int64_t tokens() const override { return heads_.front().tokens(); }

 private:
  // All heads'; in a causal one each row that is taken in attends to those before.
  struct Stage {
    Range taken{};
    int64_t attending = 0;  // not causal: rows of a task
    int64_t cuts = 1;       // tasks of a head
  };
  void Add(const Stage& stage, std::vector<AttentionStage>& stages);
  void AddTaking(int64_t rows, std::vector<AttentionStage>& stages);

  const ScanAttention* attention_;
  std::vector<ScanMemory> heads_;
  std::vector<Stage> stages_;  // of the rows at hand
};

std::vector<AttentionStage> Run::Begin(const AttentionRows& rows) {
  stages_.clear();
  std::vector<AttentionStage> stages;
  if (!attention_->causal() && std::max(rows.count, rows.source_count) <= kGrid) {
    Add({.taken = {0, rows.source_count}, .attending = rows.count}, stages);
    return stages;
  }
  AddTaking(rows.source_count, stages);
  if (!attention_->causal() && rows.count > 0)
    Add({.attending = kAttending, .cuts = Quotient(rows.count, kAttending)}, stages);
  return stages;
}

void Run::Add(const Stage& stage, std::vector<AttentionStage>& stages) {
  stages_.push_back(stage);
  const double rows = static_cast<double>(stage.taken.size() + stage.attending);
  stages.push_back(
      {attention_->heads() * stage.cuts, rows * attention_->scan().RowCost(attention_->causal())});
}

// A head's rows come one after another: what would be long tasks are several stages.
void Run::AddTaking(int64_t rows, std::vector<AttentionStage>& stages) {
  const double blocks = kTaskCost / (kGrid * attention_->scan().RowCost(attention_->causal()));
  const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(blocks)) * kGrid, from = tokens();
  for (int64_t row = 0, end; row < rows; row = end) {
    end = std::min(rows, row + most - (from + row) % most);
    Add({.taken = {row, end}}, stages);
  }
}

void Run::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  const auto& [taken, attending, cuts] = stages_[stage];
  const LinearScan& scan = attention_->scan();
  const int64_t head = task / cuts, head_dim = scan.options().head_dim;
  const auto part = [&](const Rows& all, Range of) {
    return all.Slice(of.begin, of.size()).Cols(head * head_dim, head_dim);
  };
  const Rows *products = rows.products, k = part(products[1], taken), v = part(products[2], taken);
  ScanMemory& memory = heads_[head];
  if (attention_->causal())
    return scan.Extend(part(products[0], taken), k, v, memory, part(rows.out, taken), scratch);
  if (k.rows > 0) {
    const ScratchFrame frame(scratch);
    scan.Remember(k, v, memory, scratch);
  }
  const int64_t row = task % cuts * attending;
  const Range at{row, std::min(row + attending, rows.count)};
  if (at.size() > 0) scan.Attend(part(products[0], at), memory, part(rows.out, at), scratch);
}

void Run::Archive(StateArchive& archive) {
  int64_t tokens = this->tokens();
  archive.Number(tokens, 0, kMostTokens);
  for (ScanMemory& memory : heads_) memory.Archive(archive, tokens);
}

ScanAttention::ScanAttention(const AttentionSetting& setting, LinearScan scan, std::vector<Product> products,
                             int64_t constant_bytes)
    : scan_(std::move(scan)), heads_(setting.num_heads), causal_(setting.causal && !setting.cross) {
  products_ = std::move(products);
  constant_bytes_ = constant_bytes;
  data_dependent_ = scan_.options().data_dependent;
  out_width_ = setting.width;
  decode_ = causal_ || setting.cross ? DecodeClass::kExact : DecodeClass::kNone;
}

std::unique_ptr<AttentionRun> ScanAttention::Start() const { return std::make_unique<Run>(*this); }

int64_t ScanAttention::StateBytes(int64_t) const {
  return static_cast<int64_t>(sizeof(int64_t)) + heads_ * scan_.shape().bytes();
}

// Of an encoder's row both that it is taken in and that it attends.
double ScanAttention::Cost(int64_t rows, int64_t) const {
  return (causal_ ? 1 : 2) * static_cast<double>(rows) * heads_ * scan_.RowCost(causal_);
}

}  // namespace

std::unique_ptr<Attention> NewScanAttention(const AttentionSetting& setting, LinearScan scan,
                                            std::vector<Product> products, int64_t constant_bytes) {
  return std::make_unique<ScanAttention>(setting, std::move(scan), std::move(products), constant_bytes);
}

absl::StatusOr<std::vector<Product>> LoadScanProducts(const AttentionSetting& setting,
                                                      const WeightScope& scope) {
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadProducts(scope, {"q", "k", "v"}, setting));
  products[1].of_source = products[2].of_source = setting.cross;
  return products;
}

}  // namespace heed
