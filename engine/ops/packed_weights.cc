#include "engine/ops/packed_weights.h"

#include <cmath>
#include <span>
#include <utility>

#include "absl/log/check.h"

namespace heed {
namespace {

// One output of a product: a row of a part's weights. Without a part it is a gap, all zero.
struct Output {
  const PackedWeights::Part* part = nullptr;
  int64_t row = 0;
};

void Append(const PackedWeights::Part& part, std::vector<Output>& outputs) {
  CHECK_EQ(part.weight.rank(), 2);
  CHECK(part.bias.data == nullptr || part.bias.size() == part.weight.dim(0));
  for (int64_t row = 0; row < part.weight.dim(0); ++row) outputs.push_back({&part, row});
}

// [outputs, in] as float.
std::vector<float> Read(std::span<const Output> outputs, int64_t in) {
  std::vector<float> rows(outputs.size() * in, 0.0f);
  for (size_t j = 0; j < outputs.size(); ++j) {
    if (outputs[j].part != nullptr) ToFloats(outputs[j].part->weight, outputs[j].row * in, in, &rows[j * in]);
  }
  return rows;
}

float Bias(const Output& output) {
  float bias = 0;
  if (output.part != nullptr && output.part->bias.data != nullptr) {
    ToFloats(output.part->bias, output.row, 1, &bias);
  }
  return bias;
}

// [n, in] to [packed_in / group, n, group], convert(number) being the packed number; zeros beyond `in`.
template <typename T, typename Convert>
void Interleave(const std::vector<float>& rows, int64_t in, int64_t packed_in, int64_t group, T* out,
                Convert convert) {
  const int64_t n = rows.size() / in;
  for (int64_t k = 0; k < packed_in; k += group) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t g = k; g < k + group; ++g) *out++ = g < in ? convert(rows[j * in + g]) : T{};
    }
  }
}

// The scale that makes a row's largest magnitude 127; the row becomes whole numbers. A row with a NaN becomes
// zeros and its scale NaN.
float QuantizeRow(std::span<float> row, int32_t* sum) {
  float largest = 0;
  for (float w : row) largest = std::isfinite(w) ? std::max(largest, std::abs(w)) : NAN;
  const float factor = largest > 0 ? 127 / largest : 0;
  *sum = 0;
  for (float& w : row) {
    w = factor > 0 ? std::nearbyint(w * factor) : 0;
    *sum += static_cast<int32_t>(w);
  }
  return largest / 127;
}

}  // namespace

// Writes panels one after another.
class PanelWriter {
 public:
  PanelWriter(PackedWeights& w, int64_t panels, int64_t outputs) : w_(w) {
    const int64_t packed_in = PackedIn(w.in_, w.precision_);
    w.panels_ = Buffer::Lasting(outputs * packed_in * SizeOf(InputType(w.precision_)));
    w.bias_ = Buffer::Zeros(panels * kPanel * sizeof(float));
    if (w.precision_ != Precision::kInt8) return;
    CHECK_LE(w.in_, 65536) << "sums of so many products of int8 overflow";
    w.scales_ = Buffer::Zeros(panels * kPanel * sizeof(float));
    w.offsets128_ = Buffer::Zeros(panels * kPanel * sizeof(int32_t));
  }

  // At most 64 outputs, a multiple of 16.
  void Write(std::span<const Output> outputs) {
    std::vector<float> rows = Read(outputs, w_.in_);
    for (size_t j = 0; j < outputs.size(); ++j) w_.bias_.as<float>()[place_ + j] = Bias(outputs[j]);
    if (w_.precision_ == Precision::kInt8) Quantize(rows);
    WriteNumbers(rows);
    place_ += kPanel;
    packed_ += outputs.size() * PackedIn(w_.in_, w_.precision_);
  }

 private:
  void Quantize(std::vector<float>& rows) {
    for (int64_t j = 0; j * w_.in_ < static_cast<int64_t>(rows.size()); ++j) {
      int32_t sum;
      w_.scales_.as<float>()[place_ + j] = QuantizeRow(std::span(rows).subspan(j * w_.in_, w_.in_), &sum);
      w_.offsets128_.as<int32_t>()[place_ + j] = 128 * sum;
    }
  }

  void WriteNumbers(const std::vector<float>& rows) {
    const int64_t in = w_.in_, packed_in = PackedIn(in, w_.precision_);
    switch (w_.precision_) {
      case Precision::kF32:
        return Interleave(rows, in, packed_in, 1, w_.panels_.as<float>() + packed_,
                          [](float x) { return x; });
      case Precision::kBf16:
        return Interleave(rows, in, packed_in, 2, w_.panels_.as<Bf16>() + packed_, ToBf16);
      case Precision::kInt8:
        return Interleave(rows, in, packed_in, 4, w_.panels_.as<int8_t>() + packed_,
                          [](float x) { return static_cast<int8_t>(x); });
    }
  }

  PackedWeights& w_;
  int64_t place_ = 0;   // of the next panel's first output in what belongs to single outputs
  int64_t packed_ = 0;  // numbers written to panels_
};

PackedWeights PackedWeights::Pack(const std::vector<Part>& parts, Precision precision) {
  CHECK(!parts.empty());
  PackedWeights w;
  w.precision_ = Supported(precision);
  w.in_ = parts[0].weight.dim(1);
  std::vector<Output> outputs;
  for (const Part& part : parts) {
    CHECK_EQ(part.weight.dim(1), w.in_);
    outputs.resize(RoundUp(outputs.size(), 16));
    w.offsets_.push_back(outputs.size());
    Append(part, outputs);
  }
  w.out_ = outputs.size();
  outputs.resize(RoundUp(outputs.size(), 16));

  PanelWriter writer(w, GemmAccess{w}.panels(), outputs.size());
  for (std::span<const Output> left = outputs; !left.empty();) {
    const size_t width = std::min<size_t>(kPanel, left.size());
    writer.Write(left.first(width));
    left = left.subspan(width);
  }
  return w;
}

PackedWeights PackedWeights::PackGated(const Part& gate, const Part& up, Precision precision) {
  CHECK(gate.weight.shape == up.weight.shape);
  PackedWeights w;
  w.precision_ = Supported(precision);
  w.gated_ = true;
  w.out_ = gate.weight.dim(0);
  w.in_ = gate.weight.dim(1);
  w.offsets_ = {0};
  std::vector<Output> gates, ups;
  Append(gate, gates);
  Append(up, ups);
  gates.resize(RoundUp(w.out_, 16));
  ups.resize(RoundUp(w.out_, 16));

  PanelWriter writer(w, 2 * GemmAccess{w}.panels(), 2 * gates.size());
  for (std::span<const Output> gates_left = gates, ups_left = ups; !gates_left.empty();) {
    const size_t width = std::min<size_t>(kPanel, gates_left.size());
    writer.Write(gates_left.first(width));
    writer.Write(ups_left.first(width));
    gates_left = gates_left.subspan(width);
    ups_left = ups_left.subspan(width);
  }
  return w;
}

int64_t PackedWeights::bytes() const {
  return panels_.size() + bias_.size() + scales_.size() + offsets128_.size();
}

}  // namespace heed
