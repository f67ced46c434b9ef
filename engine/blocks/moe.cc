// "moe": a mixture of experts, each a "dense" feed-forward of the model's hidden_act. A router scores them
// for each row, s = softmax(Wr x) over all, and the top_k with the highest scores answer:
//   top_k 1, Switch Transformer (Fedus et al. 2021)   y = s_e E_e(x)
//   top_k 2, GShard (Lepikhin et al. 2020)            y = (s_e E_e(x) + s_f E_f(x)) / (s_e + s_f)
// Options: experts; top_k (1, at most 64); intermediate_size (the model's), of an expert
//   normalize (true with top_k above 1)   divides by the sum of the chosen scores
//   score ("softmax")          "sigmoid", of each logit by itself (DeepSeek-V3, 2024); "chosen_softmax", over
//   the
//                              chosen logits alone (Granite, gpt-oss); "sparse_mixer" (Phi-3.5-MoE, 2024): of
//                              each choice over the logits that are behind it by at most 2 jitter (0.01)
//                              times the larger of it and their own magnitude, without earlier choices; then
//                              normalize is false if it is not given
//   scale (1)                  of the result of all experts
//   correction (false)         router.correction is added to scores when experts are chosen, and not to what
//                              they count (Wang et al. 2024)
//   correction_of ("scores")   "logits": it is added to those instead, and the sums choose (Kolibri, 2026)
//   groups (1), top_groups (groups), group_score ("two" | "max")   experts are chosen from the best groups of
//                              neighbours, by the sum of a group's two best or by its best
//   strict_groups (false)      from no others; else those of other groups count 0, and are chosen before an
//                              expert whose corrected score is below that (DeepSeek V3)
//   shared_size (0), shared_gate (false)   an expert of that width which answers every row (DeepSeekMoE, Dai
//   et
//                              al. 2024); with a gate times sigmoid(shared_gate . x) (Qwen 2, 2024)
//   expert_scale (false)       each expert's result times a learned number of its own, after all of that
//   result_norms (false)       norms, as the model's, of what the experts and the shared expert say, before
//                              these are added (Gemma 4, 2026)
//   capacity (null, the only form: no row is dropped, so decoding is exact)
// Tensors: router.weight [experts, hidden_size], router.bias where present, router.correction and
//   router.expert_scale [experts]; experts.E.{up, gate, down} and shared.{up, gate, down} as of "dense";
//   shared_gate.weight [1, hidden_size]; experts_norm and shared_norm.{weight, bias}.
//
// The rows of a batch, kMaxGroupedRows at a time, are put in the order of their experts: each expert with
// rows is one product over them, which reads its weights once, and one without costs nothing.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/base/status.h"
#include "engine/blocks/dense.h"
#include "engine/blocks/expert_router.h"
#include "engine/ops/gather.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kMostHidden = 1 << 20;

// Of what the experts say, and of what the one says that answers all rows.
struct ResultNorms {
  Norm experts, all;
};

// What answers every row.
struct SharedExpert {
  std::optional<DenseProducts> products;  // none: nobody does
  bool gated = false;
  std::optional<ResultNorms> norms{};
};

class MoeFeedForward : public FeedForward {
 public:
  MoeFeedForward(const FeedForwardSetting& setting, ExpertRouter router, std::vector<DenseProducts> experts,
                 SharedExpert all);
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
    Rows logits;      // f32, [rows, ExpertRouter::product()'s]
    int32_t* chosen;  // [choices]: the expert
    float* weights;   // [choices]: what its result counts
    int32_t* places;  // [choices]: the choice's row among those in the experts' order
    Rows gathered;    // activation type: inputs
    Rows hidden;      // activation type: between an expert's products
    Rows results;     // f32
    Rows all_hidden;  // activation type: between the products of the expert that all rows share
    Rows all_result;  // f32: its result, where that has a gate or a norm
    Rows sum;         // f32: of what the experts say, where that has a norm
    Rows quantized;   // int8: of either input, with its scales
    float* scales;
    int32_t* begins;  // [experts + 2]: the rows of expert e are begins[e] .. begins[e + 1] - 1
  };

  Shared Lay(Pieces pieces, int64_t rows, int64_t* bytes = nullptr) const;
  int64_t experts() const { return std::ssize(experts_); }
  void Route(RowBlock& block, const Rows& in, const Shared& shared) const;
  void AnswerAll(RowBlock& block, const Rows& in, const Shared& shared, const Epilogue& out) const;
  void AddGated(RowBlock& block, const Shared& shared, const Rows& out) const;
  void AddNormed(RowBlock& block, const Shared& shared, const Epilogue& out) const;
  void Group(const Shared& shared, int64_t rows) const;
  void Multiply(RowBlock& block, const Shared& shared, PackedWeights DenseProducts::* weights, const Rows& in,
                const Epilogue& out) const;

  const int64_t width_, hidden_;
  const Precision precision_;
  const Activation activation_;
  ExpertRouter router_;
  const int64_t top_k_;
  std::vector<DenseProducts> experts_;
  std::optional<DenseProducts> all_;
  const bool gated_;  // the expert that all rows share
  const std::optional<ResultNorms> norms_;
};

MoeFeedForward::MoeFeedForward(const FeedForwardSetting& setting, ExpertRouter router,
                               std::vector<DenseProducts> experts, SharedExpert all)
    : width_(setting.width),
      hidden_(setting.hidden),
      precision_(setting.precision),
      activation_(setting.act.activation),
      router_(std::move(router)),
      top_k_(router_.top_k()),
      experts_(std::move(experts)),
      all_(std::move(all.products)),
      gated_(all.gated),
      norms_(std::move(all.norms)) {
  weight_bytes_ = router_.product().bytes();
  for (const DenseProducts& expert : experts_) weight_bytes_ += expert.bytes();
  multiply_adds_ = static_cast<double>(width_ * (this->experts() + (gated_ ? 1 : 0))) +
                   static_cast<double>(top_k_) * experts_.front().multiply_adds();
  if (all_) {
    weight_bytes_ += all_->bytes();
    multiply_adds_ += all_->multiply_adds();
    reads_ = std::max(width_, all_->down.in());
  }
  block_rows_ = kMaxGroupedRows;
  scratch_bytes_ = std::max(scratch_bytes_, router_.scratch_bytes());
  data_dependent_ = true;
}

MoeFeedForward::Shared MoeFeedForward::Lay(Pieces pieces, int64_t rows, int64_t* bytes) const {
  const DType type = ActivationType(precision_);
  const int64_t choices = rows * top_k_;
  Shared shared;
  if (type != DType::kF32) shared.exact = pieces.TakeRows(rows, width_, DType::kF32);
  shared.logits = pieces.TakeRows(rows, router_.product().out(), DType::kF32);
  shared.chosen = pieces.Take<int32_t>(choices);
  shared.weights = pieces.Take<float>(choices);
  shared.places = pieces.Take<int32_t>(choices);
  shared.begins = pieces.Take<int32_t>(experts() + 2);
  shared.gathered = pieces.TakeRows(choices, width_, type);
  shared.hidden = pieces.TakeRows(choices, hidden_, type);
  shared.results = pieces.TakeRows(choices, width_, DType::kF32);
  if (all_) shared.all_hidden = pieces.TakeRows(rows, all_->down.in(), type);
  if (gated_ || norms_) shared.all_result = pieces.TakeRows(rows, width_, DType::kF32);
  if (norms_) shared.sum = pieces.TakeRows(rows, width_, DType::kF32);
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
  const Rows sum = norms_ ? shared.sum : out.out;
  ForRowParts(block, width_, [&](int64_t row, Range columns) {
    float* y = sum.As<float>().row(row) + columns.begin;
    if (norms_ || !out.add) std::fill_n(y, columns.size(), 0.0f);
    AddWeightedRows(shared.results.Cols(columns.begin, columns.size()),
                    {shared.places + row * top_k_, static_cast<size_t>(top_k_)},
                    shared.weights + row * top_k_, y);
  });
  if (all_) AnswerAll(block, in, shared, out);
}

// Adds what the shared expert says.
void MoeFeedForward::AnswerAll(RowBlock& block, const Rows& in, const Shared& shared,
                               const Epilogue& out) const {
  const Rows hidden = shared.all_hidden.Slice(0, block.rows());
  Linear(block, in, all_->up, {.out = hidden, .activation = activation_});
  if (!gated_ && !norms_) return Linear(block, hidden, all_->down, {.out = out.out, .add = true});
  Linear(block, hidden, all_->down, {.out = shared.all_result.Slice(0, block.rows())});
  gated_ ? AddGated(block, shared, out.out) : AddNormed(block, shared, out);
}

void MoeFeedForward::AddGated(RowBlock& block, const Shared& shared, const Rows& out) const {
  ForRows(block, [&](int64_t first, int64_t count) {
    for (int64_t row = first; row < first + count; ++row) {
      const float gate = 1 / (1 + std::exp(-shared.logits.As<float>().row(row)[router_.gate_column()]));
      const float* from = shared.all_result.As<float>().row(row);
      float* to = out.As<float>().row(row);
      for (int64_t c = 0; c < width_; ++c) to[c] += gate * from[c];
    }
  });
}

void MoeFeedForward::AddNormed(RowBlock& block, const Shared& shared, const Epilogue& out) const {
  ForRows(block, [&](int64_t first, int64_t count) {
    const Rows experts = shared.sum.Slice(first, count), all = shared.all_result.Slice(first, count),
               to = out.out.Slice(first, count);
    norms_->experts.Apply(experts.As<float>(), experts);
    norms_->all.Apply(all.As<float>(), all);
    out.add ? Add(experts.As<float>(), to.As<float>()) : Convert(experts, to);
    Add(all.As<float>(), to.As<float>());
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
  Linear(block, exact, router_.product(), {.out = shared.logits});
  ForRows(block, [&](int64_t first, int64_t count) {
    for (int64_t row = first; row < first + count; ++row) {
      router_.Choose(shared.logits.As<float>().row(row), block.scratch, shared.chosen + row * top_k_,
                     shared.weights + row * top_k_);
    }
  });
  if (block.team.rank() == 0) Group(shared, block.rows());
  block.team.Barrier();
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
  FeedForwardSetting own = setting;
  own.hidden = fields.Int("intermediate_size", setting.hidden, 1, kMostHidden);
  RequireHidden(own, fields);
  ExpertRouter router(fields);
  const int64_t shared_size = fields.Int("shared_size", 0, 0, kMostHidden);
  const bool shared_gate = fields.Bool("shared_gate", false), norms = fields.Bool("result_norms", false);
  if (shared_gate && shared_size == 0) fields.Fail("shared_gate: there is no shared expert (shared_size 0)");
  if (norms && (shared_size == 0 || shared_gate))
    fields.Fail("result_norms: of experts beside a shared one (shared_size) without a gate");
  if (const Json& capacity = fields.Raw("capacity"); !capacity.is_null())
    fields.Fail(Cat("capacity: ", Shown(capacity), "; only null is served: no row is dropped"));
  RETURN_IF_ERROR(fields.Finish());
  RETURN_IF_ERROR(router.Load(scope, setting.width, shared_gate));
  std::vector<DenseProducts> products;
  for (int64_t e = 0; e < router.experts(); ++e) {
    ASSIGN_OR_RETURN(DenseProducts expert, DenseProducts::Load(own, scope / "experts" / Cat(e)));
    products.push_back(std::move(expert));
  }
  SharedExpert shared{.products = {}, .gated = shared_gate};
  if (shared_size > 0) {
    FeedForwardSetting all = setting;
    all.hidden = shared_size;
    ASSIGN_OR_RETURN(shared.products, DenseProducts::Load(all, scope / "shared"));
  }
  if (norms) {
    shared.norms.emplace();
    ASSIGN_OR_RETURN(shared.norms->experts, Norm::Load(scope / "experts_norm", setting.width, setting.norm));
    ASSIGN_OR_RETURN(shared.norms->all, Norm::Load(scope / "shared_norm", setting.width, setting.norm));
  }
  return std::make_unique<MoeFeedForward>(own, std::move(router), std::move(products), std::move(shared));
}

}  // namespace heed
