// "moe": a mixture of experts, each a "dense" feed-forward of the model's hidden_act and intermediate_size.
// A router chooses for each row the top_k most probable, p = softmax(Wr x) over all experts:
//   top_k 1, Switch Transformer (Fedus et al. 2021)   y = p_e E_e(x)
//   top_k 2, GShard (Lepikhin et al. 2020)            y = (p_e E_e(x) + p_f E_f(x)) / (p_e + p_f)
// Options: experts; top_k (1); capacity (null, the only form: no row is dropped, so decoding is exact).
// Tensors: router.weight [experts, hidden_size], router.bias where present; experts.E.{up, gate, down} as of
//   "dense".
//
// The router computes in f32 whatever the precision; of equal probabilities the lower index is taken. The
// rows of a batch, kMaxGroupedRows at a time, are put in the order of their experts: each expert with rows is
// one product over them, which reads its weights once, and one without costs nothing.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/base/status.h"
#include "engine/blocks/dense.h"
#include "engine/ops/gather.h"
#include "engine/ops/rows.h"
#include "engine/ops/top_k.h"

namespace heed {
namespace {

constexpr int64_t kMostExperts = 1 << 16;
constexpr int64_t kMostChosen = 2;

class MoeFeedForward : public FeedForward {
 public:
  MoeFeedForward(const FeedForwardSetting& setting, int64_t top_k, PackedWeights router,
                 std::vector<DenseProducts> experts);
  void Run(RowBlock& block, const Rows& in, const Epilogue& out) const override;
  int64_t SharedBytes(int64_t rows) const override {
    int64_t bytes = 0;
    Lay(Pieces(), rows, &bytes);
    return bytes;
  }

 private:
  // What a team shares. A choice is a row with one of its experts: choice c is of row c / top_k.
  struct Shared {
    Rows exact;       // f32: what the router reads, where that is of another type
    Rows logits;      // f32, [rows, experts]
    int32_t* chosen;  // [choices]: the expert
    float* weights;   // [choices]: what its result counts
    int32_t* places;  // [choices]: the choice's row among those in the experts' order
    Rows gathered;    // activation type: inputs
    Rows hidden;      // activation type: between an expert's products
    Rows results;     // f32
    Rows quantized;   // int8: of either input, with its scales
    float* scales;
    int32_t* begins;  // [experts + 2]: the rows of expert e are begins[e] .. begins[e + 1] - 1
  };

  Shared Lay(Pieces pieces, int64_t rows, int64_t* bytes = nullptr) const;
  int64_t experts() const { return std::ssize(experts_); }
  void Route(RowBlock& block, const Rows& in, const Shared& shared) const;
  void Choose(const float* logits, Scratch& scratch, int32_t* chosen, float* weights) const;
  void Group(const Shared& shared, int64_t rows) const;
  void Multiply(RowBlock& block, const Shared& shared, PackedWeights DenseProducts::* weights, const Rows& in,
                const Epilogue& out) const;

  const int64_t width_, hidden_, top_k_;
  const Precision precision_;
  const Activation activation_;
  PackedWeights router_;
  std::vector<DenseProducts> experts_;
};

MoeFeedForward::MoeFeedForward(const FeedForwardSetting& setting, int64_t top_k, PackedWeights router,
                               std::vector<DenseProducts> experts)
    : width_(setting.width),
      hidden_(setting.hidden),
      top_k_(top_k),
      precision_(setting.precision),
      activation_(setting.act.activation),
      router_(std::move(router)),
      experts_(std::move(experts)) {
  weight_bytes_ = router_.bytes();
  for (const DenseProducts& expert : experts_) weight_bytes_ += expert.bytes();
  multiply_adds_ = static_cast<double>(width_ * this->experts()) +
                   static_cast<double>(top_k_) * experts_.front().multiply_adds();
  block_rows_ = kMaxGroupedRows;
  data_dependent_ = true;
}

MoeFeedForward::Shared MoeFeedForward::Lay(Pieces pieces, int64_t rows, int64_t* bytes) const {
  const DType type = ActivationType(precision_);
  const int64_t choices = rows * top_k_;
  Shared shared;
  if (type != DType::kF32) shared.exact = pieces.TakeRows(rows, width_, DType::kF32);
  shared.logits = pieces.TakeRows(rows, experts(), DType::kF32);
  shared.chosen = pieces.Take<int32_t>(choices);
  shared.weights = pieces.Take<float>(choices);
  shared.places = pieces.Take<int32_t>(choices);
  shared.begins = pieces.Take<int32_t>(experts() + 2);
  shared.gathered = pieces.TakeRows(choices, width_, type);
  shared.hidden = pieces.TakeRows(choices, hidden_, type);
  shared.results = pieces.TakeRows(choices, width_, DType::kF32);
  if (precision_ == Precision::kInt8) {
    shared.quantized = pieces.TakeRows(choices, (std::max(width_, hidden_) + 63) / 64 * 64, DType::kU8);
    shared.scales = pieces.Take<float>(choices);
  }
  if (bytes != nullptr) *bytes = pieces.bytes();
  return shared;
}

void MoeFeedForward::Run(RowBlock& block, const Rows& in, const Epilogue& out) const {
  const Shared shared = Lay(Pieces(block.buffers.shared.as<void>()), block.buffers.rows());
  const int64_t choices = block.rows() * top_k_;
  Route(block, in, shared);
  const Range share = block.team.Share(choices);
  for (int64_t c = share.begin; c < share.end; ++c)
    std::memcpy(shared.gathered.at(shared.places[c]), in.at(c / top_k_), width_ * SizeOf(in.dtype));
  block.team.Barrier();
  Multiply(block, shared, &DenseProducts::up, shared.gathered.Slice(0, choices),
           {.out = shared.hidden, .activation = activation_});
  Multiply(block, shared, &DenseProducts::down, shared.hidden.Slice(0, choices), {.out = shared.results});
  ForRowParts(block, width_, [&](int64_t row, Range columns) {
    float* y = out.out.As<float>().row(row) + columns.begin;
    if (!out.add) std::fill_n(y, columns.size(), 0.0f);
    AddWeightedRows(shared.results.Cols(columns.begin, columns.size()),
                    {shared.places + row * top_k_, static_cast<size_t>(top_k_)},
                    shared.weights + row * top_k_, y);
  });
}

// Which experts the rows go to, and their order.
void MoeFeedForward::Route(RowBlock& block, const Rows& in, const Shared& shared) const {
  Rows exact = in;
  if (in.dtype != DType::kF32) {
    exact = shared.exact.Slice(0, block.rows());
    ForRows(block, [&](int64_t first, int64_t count) {
      Convert(in.Slice(first, count), exact.Slice(first, count));
    });
  }
  Linear(block, exact, router_, {.out = shared.logits});
  ForRows(block, [&](int64_t first, int64_t count) {
    for (int64_t row = first; row < first + count; ++row) {
      Choose(shared.logits.As<float>().row(row), block.scratch, shared.chosen + row * top_k_,
             shared.weights + row * top_k_);
    }
  });
  if (block.team.rank() == 0) Group(shared, block.rows());
  block.team.Barrier();
}

void MoeFeedForward::Choose(const float* logits, Scratch& scratch, int32_t* chosen, float* weights) const {
  Ranked best[kMostChosen];
  TopK(logits, experts(), top_k_, scratch, best);
  const double all = LogSumExp(logits, experts());
  float sum = 0;
  for (int64_t i = 0; i < top_k_; ++i) {
    chosen[i] = best[i].index;
    weights[i] = static_cast<float>(std::exp(best[i].value - all));
    sum += weights[i];
  }
  if (top_k_ == 1) return;
  for (int64_t i = 0; i < top_k_; ++i) weights[i] /= sum;
}

// Counted at begins[e + 2] and summed up, begins[e + 1] is where expert e begins; its rows move that to its
// end.
void MoeFeedForward::Group(const Shared& shared, int64_t rows) const {
  std::fill_n(shared.begins, experts() + 2, 0);
  for (int64_t c = 0; c < rows * top_k_; ++c) ++shared.begins[shared.chosen[c] + 2];
  for (int64_t e = 2; e < experts() + 2; ++e) shared.begins[e] += shared.begins[e - 1];
  for (int64_t c = 0; c < rows * top_k_; ++c) shared.places[c] = shared.begins[shared.chosen[c] + 1]++;
}

// Every expert's product with its own rows.
void MoeFeedForward::Multiply(RowBlock& block, const Shared& shared, PackedWeights DenseProducts::* weights,
                              const Rows& in, const Epilogue& out) const {
  GemmInput input{in};
  if (precision_ == Precision::kInt8) {
    input = {shared.quantized.Slice(0, in.rows).Cols(0, in.cols), shared.scales};
    Quantize(block.team, in, input.rows, shared.scales);
    block.team.Barrier();
  }
  for (int64_t e = 0; e < experts(); ++e) {
    const int64_t first = shared.begins[e], count = shared.begins[e + 1] - first;
    if (count == 0) continue;
    const GemmInput own{input.rows.Slice(first, count), input.scales ? input.scales + first : nullptr};
    LinearInTurn(block, e, own, experts_[e].*weights,
                 {.out = out.out.Slice(first, count), .activation = out.activation});
  }
  block.team.Barrier();
}

}  // namespace

absl::StatusOr<std::unique_ptr<FeedForward>> NewMoeFeedForward(const FeedForwardSetting& setting,
                                                               JsonFields& fields, const WeightScope& scope) {
  RequireHidden(setting, fields);
  const int64_t experts = fields.RequiredInt("experts", 1, kMostExperts);
  const int64_t top_k = fields.Int("top_k", 1, 1, std::min(kMostChosen, experts));
  if (const Json& capacity = fields.Raw("capacity"); !capacity.is_null())
    fields.Fail(Cat("capacity: ", Shown(capacity), "; only null is served: no row is dropped"));
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(Product router, LoadProduct(scope, "router", experts, setting.width));
  std::vector<DenseProducts> products;
  for (int64_t e = 0; e < experts; ++e) {
    ASSIGN_OR_RETURN(DenseProducts expert, DenseProducts::Load(setting, scope / "experts" / Cat(e)));
    products.push_back(std::move(expert));
  }
  return std::make_unique<MoeFeedForward>(
      setting, top_k, PackedWeights::Pack({{router.weight, router.bias}}, Precision::kF32),
      std::move(products));
}

}  // namespace heed
