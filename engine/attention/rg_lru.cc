// "rg_lru": the real-gated linear recurrent unit behind a convolution, as Griffin and RecurrentGemma have it
// (De et al. 2024). A head's gates are products of its own numbers:
//   x = convolution(x(row)), causal
//   i = sigmoid(input_gate x),  r = sigmoid(recurrent_gate x),  a = exp(-8 r softplus(recurrent_param))
//   h = a h + sqrt(1 - a^2) (i x), at the first row of a sequence h = i x
//   out = h gelu(y(row)), its tanh form
// Options: inner_size (hidden_size); kernel (4) taps of the convolution.
// Tensors: x, y [inner_size, hidden_size], convolution.weight [inner_size, kernel] and convolution.bias,
// input_gate.weight, recurrent_gate.weight [heads, in, out] of inner_size / heads numbers, their biases
// [heads, out], recurrent_param [inner_size].
// State: kernel rows of inner_size numbers, whatever the length. Decoding is exact.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "engine/attention/causal_convolution.h"
#include "engine/attention/recurrence.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/gates.h"
#include "engine/ops/recurrence.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
constexpr double kSharpness = 8;  // of the recurrent gate
constexpr int64_t kMostInner = 1 << 17;

struct Options {
  int64_t heads = 0, inner = 0, kernel = 4;
  Precision precision = Precision::kF32;  // of the gates

  int64_t block() const { return inner / heads; }
};

struct Tensors {
  std::vector<Product> products;
  CausalConvolution convolution;
  std::vector<PackedWeights> gates;  // of each head both, i and r
  std::vector<float> rates;          // -8 softplus(recurrent_param)
};

enum Products { kX, kY };

class RgLruAttention : public RecurrentAttention {
 public:
  RgLruAttention(const Options& options, Tensors tensors);
  std::vector<AttentionStage> Steps(int64_t rows) const override;
  void Do(const RecurrentRows& rows, int step, int64_t task, Scratch& scratch) const override;

 private:
  int64_t Pitch() const { return RoundUp(o_.block(), 32) + 32; }
  int64_t GatesPitch() const { return RoundUp(t_.gates.front().out(), 16) + 16; }
  double RowCost() const;  // of a head
  void Step(const RecurrentRows& rows, int64_t head, Range few, Scratch& scratch) const;
  Matrix<float> Gates(int64_t head, Matrix<const float> x, Scratch& scratch) const;

  Options o_;
  Tensors t_;
  DType type_;
};

RgLruAttention::RgLruAttention(const Options& options, Tensors tensors)
    : o_(options), t_(std::move(tensors)), type_(ActivationType(options.precision)) {
  products_ = std::move(t_.products);
  out_width_ = o_.inner;
  constant_bytes_ = t_.convolution.bytes() + o_.inner * kFloat;
  for (const PackedWeights& gates : t_.gates) constant_bytes_ += gates.bytes();
  sizes_.state = t_.convolution.state() + o_.inner;
  sizes_.row_cost = static_cast<double>(o_.heads) * RowCost();
  sizes_.scratch = 2 * t_.convolution.ScratchBytes(kFewRows, o_.block()) +
                   Scratch::Piece(kFewRows * Pitch() * SizeOf(type_)) +
                   Scratch::Piece(kFewRows * GatesPitch() * kFloat) +
                   GemmOfActivationsScratchBytes(o_.precision, kFewRows, o_.block());
}

double RgLruAttention::RowCost() const {
  const auto block = static_cast<double>(o_.block());
  return block * (2 * block + static_cast<double>(o_.kernel) + 6 * kMoved);
}

std::vector<AttentionStage> RgLruAttention::Steps(int64_t rows) const {
  return {{o_.heads, static_cast<double>(rows) * RowCost()}};
}

void RgLruAttention::Do(const RecurrentRows& rows, int, int64_t head, Scratch& scratch) const {
  for (int64_t row = 0; row < rows.count(); row += kFewRows)
    Step(rows, head, {row, std::min(rows.count(), row + kFewRows)}, scratch);
}

void RgLruAttention::Step(const RecurrentRows& rows, int64_t head, Range few, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const int64_t count = few.size(), block = o_.block();
  const Range columns{head * block, (head + 1) * block};
  const auto part = [&](const Rows& all) { return all.Slice(few.begin, count).Cols(columns.begin, block); };
  const Matrix<float> x = t_.convolution.Room(count, columns, scratch);
  t_.convolution.Apply(part(rows.Product(kX)), columns, rows.state, x, scratch);
  const Matrix<float> gates = Gates(head, x, scratch), fadings = gates.Cols(t_.gates[head].offset(1), block);
  Sigmoid(FloatRows(fadings), fadings);
  Fadings(fadings, t_.rates.data() + columns.begin, fadings);
  MultiplyBySigmoid(FloatRows(gates.Cols(0, block)), FloatRows(x));
  const int64_t first = rows.position + few.begin == 0 ? 1 : 0;  // of those that a state comes before
  ScaleToWhatFades(fadings.Rows(first, count - first), x.Rows(first, count - first));
  FadingSums(fadings, rows.state + t_.convolution.state() + columns.begin, x);
  GateRows(Activation::kGeluTanh, part(rows.Product(kY)), x, part(rows.out()));
}

// Both gates of a head before their sigmoids, where its packed weights put them.
Matrix<float> RgLruAttention::Gates(int64_t head, Matrix<const float> x, Scratch& scratch) const {
  const int64_t bytes = kFewRows * Pitch() * SizeOf(type_);
  const Rows in{type_, scratch.Take<char>(bytes), x.rows, x.cols, Pitch()};
  if (x.cols % 2 == 1) std::memset(in.data, 0, bytes);  // pairs of numbers are read whole
  Convert(FloatRows(x), in);
  const PackedWeights& weights = t_.gates[head];
  const Matrix<float> gates{scratch.Take<float>(kFewRows * GatesPitch()), x.rows, weights.out(),
                            GatesPitch()};
  Team alone;
  GemmOfActivations(alone, in, weights, {.out = FloatRows(gates)}, scratch);
  return gates;
}

absl::StatusOr<std::vector<PackedWeights>> LoadGates(const Options& o, const WeightScope& scope) {
  const int64_t block = o.block(), side = block * block;
  std::vector<std::vector<float>> weights, biases;
  for (const char* name : {"input_gate", "recurrent_gate"}) {
    ASSIGN_OR_RETURN(weights.emplace_back(), (scope / name).Floats("weight", {o.heads, block, block}));
    ASSIGN_OR_RETURN(biases.emplace_back(), (scope / name).Floats("bias", {o.heads, block}));
  }
  std::vector<PackedWeights> packed;
  for (int64_t head = 0; head < o.heads; ++head) {
    std::vector<float> turned(2 * side);
    std::vector<PackedWeights::Part> parts;
    for (int gate = 0; gate < 2; ++gate) {
      const float* from = weights[gate].data() + head * side;
      float* to = turned.data() + gate * side;
      for (int64_t i = 0; i < side; ++i) to[i % block * block + i / block] = from[i];
      parts.push_back({.weight = {DType::kF32, {block, block}, to},
                       .bias = {DType::kF32, {block}, biases[gate].data() + head * block}});
    }
    packed.push_back(PackedWeights::Pack(parts, o.precision));
  }
  return packed;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewRgLruAttention(const AttentionSetting& setting,
                                                             JsonFields& fields, const WeightScope& scope) {
  Options o;
  o.heads = setting.num_heads;
  o.inner = fields.Int("inner_size", setting.width, 1, kMostInner);
  o.kernel = CausalConvolution::ReadSize(fields);
  // Rounded to int8, the gates would decide otherwise how long is remembered.
  o.precision = setting.precision != Precision::kInt8               ? setting.precision
                : ActivationType(setting.precision) == DType::kBf16 ? Precision::kBf16
                                                                    : Precision::kF32;
  if (o.inner % o.heads != 0 || o.block() > RecurrentAttention::kMostSide) {
    fields.Fail(Cat("inner_size: ", o.inner, " is not ", o.heads, " heads of at most ",
                    RecurrentAttention::kMostSide, " numbers"));
  }
  RequireCausal(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  Tensors t;
  for (const char* name : {"x", "y"}) {
    ASSIGN_OR_RETURN(t.products.emplace_back(), LoadProduct(scope, name, o.inner, setting.width));
  }
  ASSIGN_OR_RETURN(t.convolution, CausalConvolution::Load(scope / "convolution", {o.inner, o.kernel}));
  ASSIGN_OR_RETURN(t.gates, LoadGates(o, scope));
  ASSIGN_OR_RETURN(t.rates, scope.Floats("recurrent_param", {o.inner}));
  for (float& rate : t.rates)
    rate = static_cast<float>(-kSharpness *
                              (std::max(rate, 0.0f) + std::log1p(std::exp(-std::abs(double{rate})))));
  return std::make_unique<RgLruAttention>(o, std::move(t));
}

}  // namespace heed
