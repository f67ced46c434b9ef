#include "engine/ops/gemm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/ops/microkernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/ops/random.h"

namespace heed {
namespace {

constexpr Precision kPrecisions[] = {Precision::kF32, Precision::kBf16, Precision::kInt8};
constexpr Activation kActivations[] = {Activation::kNone,     Activation::kRelu,      Activation::kGelu,
                                       Activation::kGeluTanh, Activation::kSilu,      Activation::kSelu,
                                       Activation::kTanh,     Activation::kQuickGelu, Activation::kRelu2};

double Exact(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x > 0 ? x : 0;
    case Activation::kGelu:
      return x * std::erfc(-x / std::sqrt(2)) / 2;
    case Activation::kGeluTanh:
      return x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kSelu:
      return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x));
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kQuickGelu:
      return x / (1 + std::exp(-1.702 * x));
    case Activation::kRelu2:
      return x > 0 ? x * x : 0;
    case Activation::kClampedGate:
      return Exact(Activation::kQuickGelu, std::min(x, 7.0));
  }
  return NAN;
}

Tensor View(const std::vector<float>& numbers, std::vector<int64_t> shape) {
  return {DType::kF32, std::move(shape), numbers.data()};
}

// One linear map's numbers.
struct Layer {
  Layer(int64_t out, int64_t in, uint64_t seed) : out(out), in(in) {
    Random random(seed);
    weight = random.Normals(out * in, 1 / std::sqrt(static_cast<float>(in)));
    bias = random.Normals(out);
  }
  PackedWeights::Part part() const { return {View(weight, {out, in}), View(bias, {out})}; }
  double Output(const float* x, int64_t j) const {
    double sum = bias[j];
    for (int64_t k = 0; k < in; ++k) sum += double{x[k]} * weight[j * in + k];
    return sum;
  }
  int64_t out, in;
  std::vector<float> weight, bias;
};

// Rows as a product of a precision reads them, with room for rounding.
class Input {
 public:
  Input(int64_t rows, int64_t cols, uint64_t seed) : rows_(rows), cols_(cols) {
    numbers_ = Random(seed).Normals(rows * cols);
  }
  const float* row(int64_t i) const { return &numbers_[i * cols_]; }
  float& at(int64_t i, int64_t k) { return numbers_[i * cols_ + k]; }

  GemmInput For(const PackedWeights& w) {
    stride_ = (cols_ + 63) / 64 * 64 + 16;
    buffer_ = Buffer((rows_ + 8) * stride_ * sizeof(float));
    std::memset(buffer_.as<char>(), 0xff, buffer_.size());  // NaN wherever nobody may read
    Rows floats{DType::kF32, numbers_.data(), rows_, cols_, cols_};
    if (w.precision() == Precision::kInt8) {
      Rows bytes{DType::kU8, buffer_.as<void>(), rows_, cols_, stride_};
      scales_.assign(rows_, 0);
      Team alone;
      Quantize(alone, floats, bytes, scales_.data());
      return {bytes, scales_.data()};
    }
    Rows rows{w.precision() == Precision::kBf16 ? DType::kBf16 : DType::kF32, buffer_.as<void>(), rows_,
              cols_, stride_};
    for (int64_t i = 0; i < rows_; ++i) {
      for (int64_t k = 0; k < cols_; ++k) {
        if (rows.dtype == DType::kBf16) {
          rows.As<Bf16>().row(i)[k] = ToBf16(row(i)[k]);
        } else {
          rows.As<float>().row(i)[k] = row(i)[k];
        }
      }
    }
    return {rows};
  }

 private:
  int64_t rows_, cols_, stride_ = 0;
  std::vector<float> numbers_, scales_;
  Buffer buffer_;
};

// The product's results, [rows, out], started from `fill`.
std::vector<float> Compute(Input& x, int64_t rows, const PackedWeights& w,
                           Activation activation = Activation::kNone, bool add = false, float fill = -7,
                           int threads = 1) {
  std::vector<float> out(rows * w.out(), fill);
  const Epilogue epilogue{{DType::kF32, out.data(), rows, w.out(), w.out()}, add, activation};
  GemmInput input = x.For(w);
  input.rows.rows = rows;
  Threads(threads).RunTeam([&](Team& team) {
    Scratch scratch;
    Gemm(team, input, w, epilogue, scratch);
  });
  return out;
}

double Tolerance(Precision precision) {
  switch (Supported(precision)) {
    case Precision::kF32:
      return 1e-5;
    case Precision::kBf16:
      return 0.03;
    case Precision::kInt8:
      return 0.06;
  }
  return 0;
}

TEST(Gemm, IsTheProductForAnyShapeInEveryPrecision) {
  for (Precision precision : kPrecisions) {
    for (auto [rows, in, out] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                    {1, 64, 64},
                                                                    {3, 7, 5},
                                                                    {5, 33, 130},
                                                                    {17, 100, 48},
                                                                    {40, 384, 200},
                                                                    {200, 72, 65},
                                                                    {9, 4200, 17}}) {
      const Layer layer(out, in, 1);
      Input x(rows, in, 2);
      const std::vector<float> y = Compute(x, rows, PackedWeights::Pack({layer.part()}, precision));
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < out; ++j) {
          ASSERT_NEAR(y[i * out + j], layer.Output(x.row(i), j), Tolerance(precision))
              << Name(precision) << " " << rows << " x " << in << " x " << out << " at " << i << ", " << j;
        }
      }
    }
  }
}

TEST(Gemm, ActivationAndResidualFollowTheBias) {
  const Layer layer(80, 96, 3);
  Input x(9, 96, 4);
  for (Precision precision : kPrecisions) {
    const PackedWeights w = PackedWeights::Pack({layer.part()}, precision);
    for (Activation activation : kActivations) {
      for (bool add : {false, true}) {
        const std::vector<float> y = Compute(x, 9, w, activation, add, 2.5);
        for (int64_t i = 0; i < 9; ++i) {
          for (int64_t j = 0; j < 80; ++j) {
            const double result = layer.Output(x.row(i), j);
            const double exact = Exact(activation, result) + (add ? 2.5 : 0);
            const double steep = activation == Activation::kRelu2 ? 1 + 2 * std::abs(result) : 1;
            ASSERT_NEAR(y[i * 80 + j], exact, steep * Tolerance(precision)) << static_cast<int>(activation);
          }
        }
      }
    }
  }
}

TEST(Gemm, AGateMultipliesItsPartner) {
  for (int64_t out : {5, 64, 100, 192}) {
    const Layer gate(out, 40, 5), up(out, 40, 6);
    Input x(11, 40, 7);
    for (Precision precision : kPrecisions) {
      const PackedWeights w = PackedWeights::PackGated(gate.part(), up.part(), precision);
      EXPECT_EQ(w.out(), out);
      const std::vector<float> y = Compute(x, 11, w, Activation::kSilu);
      for (int64_t i = 0; i < 11; ++i) {
        for (int64_t j = 0; j < out; ++j) {
          const double exact = Exact(Activation::kSilu, gate.Output(x.row(i), j)) * up.Output(x.row(i), j);
          ASSERT_NEAR(y[i * out + j], exact, 4 * Tolerance(precision));
        }
      }
    }
  }
}

// Some sums are beyond the limit of 7.
TEST(Gemm, AClampedGateMultipliesOnePlusItsClampedPartner) {
  Layer gate(70, 40, 5), up(70, 40, 6);
  for (Layer* layer : {&gate, &up}) {
    for (float& weight : layer->weight) weight *= 6;
  }
  Input x(11, 40, 7);
  bool clamped = false;
  for (Precision precision : kPrecisions) {
    const PackedWeights w = PackedWeights::PackGated(gate.part(), up.part(), precision);
    const std::vector<float> y = Compute(x, 11, w, Activation::kClampedGate);
    for (int64_t i = 0; i < 11; ++i) {
      for (int64_t j = 0; j < 70; ++j) {
        const double u = up.Output(x.row(i), j);
        const double exact =
            Exact(Activation::kClampedGate, gate.Output(x.row(i), j)) * (std::clamp(u, -7.0, 7.0) + 1);
        clamped = clamped || std::abs(u) > 7;
        ASSERT_NEAR(y[i * 70 + j], exact, 6 * 16 * Tolerance(precision));
      }
    }
  }
  EXPECT_TRUE(clamped);
}

TEST(Gemm, PartsLieSideBySideFromMultiplesOfSixteen) {
  const Layer q(20, 32, 8), k(7, 32, 9), v(64, 32, 10);
  PackedWeights::Part without_bias = k.part();
  without_bias.bias = {};
  const PackedWeights w = PackedWeights::Pack({q.part(), without_bias, v.part()}, Precision::kF32);
  EXPECT_EQ(w.offset(1), 32);
  EXPECT_EQ(w.offset(2), 48);
  EXPECT_EQ(w.out(), 48 + 64);
  Input x(2, 32, 11);
  const std::vector<float> y = Compute(x, 2, w);
  for (int64_t i = 0; i < 2; ++i) {
    const float* row = &y[i * w.out()];
    EXPECT_NEAR(row[19], q.Output(x.row(i), 19), 1e-5);
    EXPECT_EQ(row[25], 0);  // a gap
    EXPECT_NEAR(row[32 + 6], k.Output(x.row(i), 6) - k.bias[6], 1e-5);
    EXPECT_NEAR(row[48 + 63], v.Output(x.row(i), 63), 1e-5);
  }
}

TEST(Gemm, WritesBf16WhereAskedAndNothingBeside) {
  const Layer layer(70, 64, 12);
  Input x(3, 64, 13);
  for (Precision precision : kPrecisions) {
    const PackedWeights w = PackedWeights::Pack({layer.part()}, precision);
    const std::vector<float> floats = Compute(x, 3, w);
    std::vector<Bf16> out(3 * 100, Bf16{0x1234});
    Team alone;
    Scratch scratch;
    Gemm(alone, x.For(w), w, {{DType::kBf16, out.data(), 3, 70, 100}}, scratch);
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 70; ++j) ASSERT_EQ(out[i * 100 + j].bits, ToBf16(floats[i * 70 + j]).bits);
      for (int64_t j = 70; j < 100; ++j) ASSERT_EQ(out[i * 100 + j].bits, 0x1234);
    }
  }
}

void ExpectSameBitsInAnyCompany(int64_t kIn, int64_t kOut) {
  constexpr int64_t kRows = 300;
  const Layer layer(kOut, kIn, 14);
  Input x(kRows, kIn, 15);
  for (Precision precision : kPrecisions) {
    const PackedWeights w = PackedWeights::Pack({layer.part()}, precision);
    const std::vector<float> all = Compute(x, kRows, w, Activation::kGelu);
    auto same = [&](const std::vector<float>& some) {
      return std::memcmp(some.data(), all.data(), some.size() * sizeof(float)) == 0;
    };
    for (int64_t rows = 1; rows <= 70; ++rows) {
      ASSERT_TRUE(same(Compute(x, rows, w, Activation::kGelu))) << Name(precision) << " of " << rows;
    }
    EXPECT_TRUE(same(Compute(x, 128, w, Activation::kGelu)));
    for (int64_t rows : {1, 8, 33, 300}) {
      for (int threads : {2, 3}) EXPECT_TRUE(same(Compute(x, rows, w, Activation::kGelu, false, 0, threads)));
    }
    // and at another place among the rows
    GemmInput shifted = x.For(w);
    shifted.rows = shifted.rows.Slice(100, 50);
    if (shifted.scales != nullptr) shifted.scales += 100;
    std::vector<float> out(50 * kOut);
    Team alone;
    Scratch scratch;
    Gemm(alone, shifted, w, {{DType::kF32, out.data(), 50, kOut, kOut}, false, Activation::kGelu}, scratch);
    EXPECT_EQ(std::memcmp(out.data(), &all[100 * kOut], out.size() * sizeof(float)), 0) << Name(precision);
  }
}

TEST(Gemm, OfActivationsIsTheProductOfWhatItReads) {
  constexpr int64_t kRows = 11, kIn = 136, kOut = 150;
  const Layer layer(kOut, kIn, 3);
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    const PackedWeights w = PackedWeights::Pack({layer.part()}, Supported(precision));
    Input x(kRows, kIn, 4);
    const PackedWeights bf16 = PackedWeights::Pack({layer.part()}, Supported(Precision::kBf16));
    const bool wide = ActivationType(w.precision()) == DType::kF32;
    const Rows rows = x.For(wide ? PackedWeights::Pack({layer.part()}, Precision::kF32) : bf16).rows;
    std::vector<uint8_t> bytes((kRows + 8) * 192);
    std::vector<float> scales(kRows), expected(kRows * kOut), out(kRows * kOut);
    GemmInput input{rows};
    Team alone;
    if (w.precision() == Precision::kInt8) {
      input = {{DType::kU8, bytes.data(), kRows, kIn, 192}, scales.data()};
      Quantize(alone, rows, input.rows, scales.data());
    }
    Scratch scratch, declared;
    Gemm(alone, input, w, {{DType::kF32, expected.data(), kRows, kOut, kOut}}, scratch);
    declared.Reserve(GemmOfActivationsScratchBytes(w.precision(), kRows, kIn));
    const size_t reserved = declared.bytes();
    Team members[] = {Team(0, 2, nullptr), Team(1, 2, nullptr)};
    for (Team& member : members)
      GemmOfActivations(member, rows, w, {{DType::kF32, out.data(), kRows, kOut, kOut}}, declared);
    EXPECT_EQ(out, expected) << Name(precision);
    EXPECT_EQ(declared.bytes(), reserved) << Name(precision);
  }
}

TEST(Gemm, ARowHasTheSameBitsInAnyCompanyOnAnyTeam) {
  ExpectSameBitsInAnyCompany(72, 136);
  ExpectSameBitsInAnyCompany(768, 64);
  ExpectSameBitsInAnyCompany(4160, 16);  // summed in pieces in every precision
}

TEST(Gemm, ANanStaysInItsRow) {
  const Layer layer(64, 33, 16);
  for (Precision precision : kPrecisions) {
    Input x(20, 33, 17);
    const PackedWeights w = PackedWeights::Pack({layer.part()}, precision);
    const std::vector<float> before = Compute(x, 20, w);
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      x.at(7, 32) = bad;
      const std::vector<float> y = Compute(x, 20, w);
      for (int64_t i = 0; i < 20; ++i) {
        for (int64_t j = 0; j < 64; ++j) {
          if (i == 7) {
            ASSERT_FALSE(std::isfinite(y[i * 64 + j]));
          } else {
            ASSERT_EQ(y[i * 64 + j], before[i * 64 + j]);
          }
        }
      }
    }
  }
}

TEST(Gemm, WeightsOfOtherFloatTypesArePackedToo) {
  const Layer layer(20, 16, 18);
  const std::vector<Bf16> halves = ToBf16s(layer.weight);
  std::vector<float> rounded;
  for (Bf16 x : halves) rounded.push_back(ToFloat(x));
  const std::vector<double> doubles(rounded.begin(), rounded.end());
  Input x(4, 16, 19);
  auto result = [&](DType dtype, const void* data) {
    return Compute(x, 4, PackedWeights::Pack({{{dtype, {20, 16}, data}, {}}}, Precision::kF32));
  };
  const std::vector<float> y = result(DType::kF32, rounded.data());
  EXPECT_EQ(result(DType::kBf16, halves.data()), y);
  EXPECT_EQ(result(DType::kF64, doubles.data()), y);
}

TEST(Gemm, AMillionRowsOfNothingAreNothing) {
  const Layer layer(20, 16, 20);
  Input x(1, 16, 21);
  EXPECT_TRUE(Compute(x, 0, PackedWeights::Pack({layer.part()}, Precision::kF32)).empty());
}

TEST(Gemm, CallsTheMicroKernelOnceForEachPanelHoweverManySequencesShareTheRows) {
  const Layer layer(128, 64, 22);
  Input x(190, 64, 23);
  const PackedWeights w = PackedWeights::Pack({layer.part()}, Precision::kF32);
  for (int64_t rows : {1, 190}) {
    const int64_t before = MicroKernel::Calls();
    Compute(x, rows, w);
    EXPECT_EQ(MicroKernel::Calls() - before, 2);
  }
}

TEST(Quantize, IsWithinHalfAStepAndFillsUpWithZeros) {
  constexpr int64_t kCols = 70;
  const std::vector<float> x = Random(24).Normals(3 * kCols);
  std::vector<uint8_t> bytes(3 * 128, 1);
  std::vector<float> scales(3);
  Team alone;
  Quantize(alone, {DType::kF32, const_cast<float*>(x.data()), 3, kCols, kCols},
           {DType::kU8, bytes.data(), 3, kCols, 128}, scales.data());
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t k = 0; k < kCols; ++k) {
      EXPECT_NEAR((bytes[i * 128 + k] - 128) * scales[i], x[i * kCols + k], scales[i] * 0.5001);
    }
    for (int64_t k = kCols; k < 128; ++k) EXPECT_EQ(bytes[i * 128 + k], 128);
  }
}

TEST(Quantize, ARowOfZerosIsZero) {
  float zeros[8] = {}, scale = 1;
  uint8_t bytes[64];
  Team alone;
  Quantize(alone, {DType::kF32, zeros, 1, 8, 8}, {DType::kU8, bytes, 1, 8, 64}, &scale);
  EXPECT_EQ(scale, 0);
  EXPECT_THAT(bytes, ::testing::Each(128));
}

TEST(Precision, NamesAreReadBack) {
  for (Precision precision : kPrecisions) EXPECT_EQ(*ParsePrecision(Name(precision)), precision);
  EXPECT_EQ(*ParsePrecision("auto"), Supported(Precision::kBf16));
  EXPECT_EQ(ParsePrecision("fp8").status().message(), "precision 'fp8' is none of auto, f32, bf16, int8");
}

}  // namespace
}  // namespace heed
