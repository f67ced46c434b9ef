// "linear": Linear Transformer (Katharopoulos et al. 2020). With phi(x) = elu(x) + 1 the softmax becomes a
// product, so that the past fits into a matrix and a vector a head, whatever its length (linear_scan.h):
//   out_i = phi(q_i) S / (phi(q_i) . z + eps)
//   S = sum of phi(k_j)' v_j,  z = sum of phi(k_j),  over all j, causal over j <= i
// No 1/sqrt(head_dim). An encoder and cross-attention attend to the sums over all rows.
//   eps (1e-6)  added to the normaliser
#include <memory>
#include <utility>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/attention/linear_scan.h"
#include "engine/base/status.h"
#include "engine/ops/scan.h"

namespace heed {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 40;

class LinearAttention : public Attention {
 public:
  LinearAttention(const AttentionSetting& setting, LinearScan scan, std::vector<Product> products);

  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t) const override;
  double Cost(int64_t n) const override { return tasks_ * scan_.Cost(n, causal_); }
  // Not causal, what remembers and what attends are two.
  int64_t ScratchBytes(int64_t) const override { return (causal_ ? 1 : 2) * scan_.ScratchBytes(); }

  const LinearScan& scan() const { return scan_; }
  bool causal() const { return causal_; }

 private:
  LinearScan scan_;
  bool causal_;
};

class Run : public AttentionRun {
 public:
  explicit Run(const LinearAttention& attention)
      : attention_(&attention), heads_(attention.tasks(), attention.scan().NewMemory()) {}
  void Extend(const AttentionRows& rows, int task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override;
  int64_t tokens() const override { return heads_.front().tokens(); }

 private:
  const LinearAttention* attention_;
  std::vector<ScanMemory> heads_;
};

void Run::Extend(const AttentionRows& rows, int task, Scratch& scratch) {
  const LinearScan& scan = attention_->scan();
  const int64_t head_dim = scan.options().head_dim;
  const auto head = [&](const Rows& all, int64_t count) {
    return all.Slice(0, count).Cols(task * head_dim, head_dim);
  };
  const Rows q = head(rows.products[0], rows.count), out = head(rows.out, rows.count);
  const Rows k = head(rows.products[1], rows.source_count), v = head(rows.products[2], rows.source_count);
  ScanMemory& memory = heads_[task];
  if (attention_->causal()) return scan.Extend(q, k, v, memory, out, scratch);
  if (k.rows > 0) scan.Remember(k, v, memory, scratch);
  if (q.rows > 0) scan.Attend(q, memory, out, scratch);
}

void Run::Archive(StateArchive& archive) {
  int64_t tokens = this->tokens();
  archive.Number(tokens, 0, kMostTokens);
  for (ScanMemory& memory : heads_) memory.Archive(archive, tokens);
}

LinearAttention::LinearAttention(const AttentionSetting& setting, LinearScan scan,
                                 std::vector<Product> products)
    : scan_(std::move(scan)), causal_(setting.causal && !setting.cross) {
  products_ = std::move(products);
  out_width_ = setting.width;
  tasks_ = setting.num_heads;
  decode_ = causal_ || setting.cross ? DecodeClass::kExact : DecodeClass::kNone;
}

std::unique_ptr<AttentionRun> LinearAttention::Start() const { return std::make_unique<Run>(*this); }

int64_t LinearAttention::StateBytes(int64_t) const {
  const LinearScan::Options& o = scan_.options();
  return sizeof(int64_t) + tasks_ * ScanMemory::Bytes(o.features, o.head_dim);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewLinearAttention(const AttentionSetting& setting,
                                                              JsonFields& fields, const WeightScope& scope) {
  LinearScan::Options options;
  options.head_dim = options.features = HeadDim(setting, fields);
  options.eps = fields.Number("eps", 1e-6, 0, 1);
  RETURN_IF_ERROR(fields.Finish());
  options.feature_map = EluPlusOne;
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadProducts(scope, {"q", "k", "v"}, setting));
  products[1].of_source = products[2].of_source = setting.cross;
  LinearScan scan(ActivationType(setting.precision), std::move(options));
  return std::make_unique<LinearAttention>(setting, std::move(scan), std::move(products));
}

}  // namespace heed
