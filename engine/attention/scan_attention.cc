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
// Blocks of rows that are worked on at the same time, those of all heads: as many as threads want. Each hands
// on more than a head's memory: where there are so many heads, their blocks come one after another.
constexpr int64_t kSharedBlocks = 16;

class ScanAttention : public Attention {
 public:
  ScanAttention(const AttentionSetting& setting, LinearScan scan, std::vector<Product> products,
                int64_t constant_bytes);

  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override;
  int64_t PassBytes() const override;
  double Cost(int64_t rows, int64_t tokens) const override;
  int64_t ScratchBytes() const override { return scan_.ScratchBytes(); }

  const LinearScan& scan() const { return scan_; }
  int heads() const { return heads_; }
  bool causal() const { return causal_; }
  int64_t blocks_at_once() const { return Quotient(kSharedBlocks, heads_); }  // of a head

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
  // All heads'.
  struct Stage {
    // kScan: rows are taken in one after another, and in a causal run each attends to those before. kSum,
    // kTake, kAttendBlocks: the three parts of that, for some blocks at the same time. kAttend: rows that are
    // not taken in attend to all that is. kFew: kScan and kAttend of rows that are not worth two stages.
    enum Kind { kScan, kSum, kTake, kAttendBlocks, kAttend, kFew, kRelease } kind;
    Range rows{};
    int64_t cuts = 1;  // tasks of a head
  };
  void Add(const Stage& stage, double cost, std::vector<AttentionStage>& stages);
  void AddScan(int64_t rows, std::vector<AttentionStage>& stages);
  void AddBlocks(int64_t rows, std::vector<AttentionStage>& stages);
  // The part of a stage's rows that lies in the cut-th block they touch.
  Range RowsOf(const Stage& stage, int64_t cut) const;
  ScanBlock BlockOf(int64_t head, int64_t cut);
  Rows Part(const Rows& all, int64_t head, Range rows) const {
    const int64_t dim = attention_->scan().shape().head_dim;
    return all.Slice(rows.begin, rows.size()).Cols(head * dim, dim);
  }
  void Scan(const AttentionRows& rows, int64_t head, Range part, Scratch& scratch);
  void SumBlock(const AttentionRows& rows, int64_t head, Range part, const ScanBlock& block,
                Scratch& scratch);
  void AttendBlock(const AttentionRows& rows, int64_t head, Range part, const ScanBlock& block,
                   Scratch& scratch);
  void Attend(const AttentionRows& rows, int64_t head, Range part, Scratch& scratch);
  void TakeBlocks(const Stage& stage, int64_t head);

  const ScanAttention* attention_;
  std::vector<ScanMemory> heads_;
  // Of the rows at hand.
  int64_t from_ = 0;  // tokens before
  std::vector<Stage> stages_;
  int64_t at_once_ = 1;  // blocks of a head
  Buffer blocks_;        // of each head so many, what their stages hand on
};

std::vector<AttentionStage> Run::Begin(const AttentionRows& rows) {
  from_ = tokens();
  stages_.clear();
  std::vector<AttentionStage> stages;
  const double row = attention_->scan().RowCost(false);
  if (!attention_->causal() && std::max(rows.count, rows.source_count) <= kGrid) {
    Add({Stage::kFew}, static_cast<double>(rows.count + rows.source_count) * row, stages);
    return stages;
  }
  if (rows.source_count > kGrid && attention_->blocks_at_once() > 1) {
    AddBlocks(rows.source_count, stages);
  } else {
    AddScan(rows.source_count, stages);
  }
  if (!attention_->causal() && rows.count > 0) {
    Add({Stage::kAttend, {0, rows.count}, Quotient(rows.count, kAttending)},
        static_cast<double>(std::min(rows.count, kAttending)) * row, stages);
  }
  return stages;
}

void Run::Add(const Stage& stage, double cost, std::vector<AttentionStage>& stages) {
  stages_.push_back(stage);
  stages.push_back({stage.kind == Stage::kRelease ? 1 : attention_->heads() * stage.cuts, cost});
}

// What would be long tasks are several stages.
void Run::AddScan(int64_t rows, std::vector<AttentionStage>& stages) {
  const double cost = attention_->scan().RowCost(attention_->causal()), blocks = kTaskCost / (kGrid * cost);
  const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(blocks)) * kGrid;
  for (int64_t row = 0, end; row < rows; row = end) {
    end = std::min(rows, row + most - (from_ + row) % most);
    Add({Stage::kScan, {row, end}}, static_cast<double>(end - row) * cost, stages);
  }
}

void Run::AddBlocks(int64_t rows, std::vector<AttentionStage>& stages) {
  const LinearScan& scan = attention_->scan();
  at_once_ = std::min(attention_->blocks_at_once(), Quotient(from_ % kGrid + rows, kGrid));
  blocks_ = Buffer::Lasting(attention_->heads() * at_once_ * scan.BlockBytes());
  const double sum = kGrid * scan.RowCost(false), all = kGrid * scan.RowCost(true);
  for (int64_t row = 0, end; row < rows; row = end) {
    end = std::min(rows, RoundDown(from_ + row, kGrid) + at_once_ * kGrid - from_);
    const int64_t blocks = Quotient((from_ + row) % kGrid + end - row, kGrid);
    Add({Stage::kSum, {row, end}, blocks}, sum, stages);
    Add({Stage::kTake, {row, end}}, kMoved * static_cast<double>(blocks * scan.shape().sums()), stages);
    if (attention_->causal()) Add({Stage::kAttendBlocks, {row, end}, blocks}, all - sum, stages);
  }
  Add({Stage::kRelease}, 0, stages);
}

Range Run::RowsOf(const Stage& stage, int64_t cut) const {
  const int64_t block = RoundDown(from_ + stage.rows.begin, kGrid) + cut * kGrid - from_;
  return {std::max(stage.rows.begin, block), std::min(stage.rows.end, block + kGrid)};
}

ScanBlock Run::BlockOf(int64_t head, int64_t cut) {
  const LinearScan& scan = attention_->scan();
  return scan.BlockAt(blocks_.as<char>() + (head * at_once_ + cut) * scan.BlockBytes());
}

void Run::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  const Stage& at = stages_[stage];
  const int64_t head = task / at.cuts, cut = task % at.cuts;
  switch (at.kind) {
    case Stage::kScan:
      return Scan(rows, head, at.rows, scratch);
    case Stage::kSum:
      return SumBlock(rows, head, RowsOf(at, cut), BlockOf(head, cut), scratch);
    case Stage::kTake:
      return TakeBlocks(at, head);
    case Stage::kAttendBlocks:
      return AttendBlock(rows, head, RowsOf(at, cut), BlockOf(head, cut), scratch);
    case Stage::kAttend:
      return Attend(rows, head, {cut * kAttending, std::min((cut + 1) * kAttending, rows.count)}, scratch);
    case Stage::kFew:
      Scan(rows, head, {0, rows.source_count}, scratch);
      return Attend(rows, head, {0, rows.count}, scratch);
    case Stage::kRelease:
      blocks_ = Buffer();
  }
}

void Run::Scan(const AttentionRows& rows, int64_t head, Range part, Scratch& scratch) {
  const LinearScan& scan = attention_->scan();
  const Rows k = Part(rows.products[1], head, part), v = Part(rows.products[2], head, part);
  if (!attention_->causal()) return scan.Remember(k, v, heads_[head], scratch);
  scan.Extend(Part(rows.products[0], head, part), k, v, heads_[head], Part(rows.out, head, part), scratch);
}

void Run::SumBlock(const AttentionRows& rows, int64_t head, Range part, const ScanBlock& block,
                   Scratch& scratch) {
  attention_->scan().Sum(Part(rows.products[1], head, part), Part(rows.products[2], head, part), block,
                         scratch);
}

void Run::AttendBlock(const AttentionRows& rows, int64_t head, Range part, const ScanBlock& block,
                      Scratch& scratch) {
  attention_->scan().AttendBlock(Part(rows.products[0], head, part), Part(rows.products[2], head, part),
                                 block, Part(rows.out, head, part), scratch);
}

void Run::Attend(const AttentionRows& rows, int64_t head, Range part, Scratch& scratch) {
  attention_->scan().Attend(Part(rows.products[0], head, part), heads_[head], Part(rows.out, head, part),
                            scratch);
}

void Run::TakeBlocks(const Stage& stage, int64_t head) {
  int64_t cut = 0;
  for (int64_t row = stage.rows.begin; row < stage.rows.end; ++cut) {
    const Range block = RowsOf(stage, cut);
    heads_[head].Take(block.size(), BlockOf(head, cut).sums);
    row = block.end;
  }
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

int64_t ScanAttention::PassBytes() const {
  return blocks_at_once() > 1 ? heads_ * blocks_at_once() * scan_.BlockBytes() : 0;
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
  const int64_t in = setting.source_width > 0 ? setting.source_width : setting.width;
  std::vector<Product> products(3);
  ASSIGN_OR_RETURN(products[0], LoadProduct(scope, "q", setting.width, setting.width));
  ASSIGN_OR_RETURN(products[1], LoadProduct(scope, "k", setting.width, in));
  ASSIGN_OR_RETURN(products[2], LoadProduct(scope, "v", setting.width, in));
  products[1].of_source = products[2].of_source = setting.cross;
  return products;
}

}  // namespace heed
