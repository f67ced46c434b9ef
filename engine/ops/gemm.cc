#include "engine/ops/gemm.h"

#include <algorithm>

#include "absl/log/check.h"
#include "absl/log/log.h"
#include "engine/base/status.h"
#include "engine/ops/epilogue.h"
#include "engine/ops/few_rows.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/packed_weights.h"

namespace heed {
namespace {

// The micro-kernel reads a panel again for every few rows, so what it reads has to stay in the L2 cache
// beside the rows: a long panel goes a stretch at a time (3072 inputs in f32: 90 % of the hot speed, not 60).
constexpr int64_t kStretchBytes = 4096;  // of each output
constexpr int64_t kMaxBlockRows = 192;
constexpr int64_t kColumnBytes = 4;  // of a bias, a scale, an offset

// Rows to a block, all blocks alike, as few as can be.
int64_t BlockRows(int64_t rows) {
  const int64_t blocks = (rows + kMaxBlockRows - 1) / kMaxBlockRows;
  return RoundUp((rows + blocks - 1) / blocks, 8);
}

// One member's part of a product.
class Product {
 public:
  Product(const GemmInput& x, const PackedWeights& w, const Epilogue& epilogue, Scratch& scratch)
      : x_(x), w_{w}, epilogue_(epilogue), block_rows_(BlockRows(x.rows.rows)) {
    const int64_t tile = RoundRows(static_cast<int>(block_rows_)) * kPanel;
    tile_ = scratch.Take<float>(w.gated() ? 2 * tile : tile);
    up_tile_ = tile_ + tile;
  }

  void Compute(Range panels) {
    for (int64_t row = 0; row < x_.rows.rows; row += block_rows_) {
      const int64_t rows = std::min(block_rows_, x_.rows.rows - row);
      for (int64_t panel = panels.begin; panel < panels.end; ++panel) Tile(row, rows, panel);
    }
  }

 private:
  // Rows [row, row + rows) of one panel.
  void Tile(int64_t row, int64_t rows, int64_t panel) {
    CallForEpilogue(panel);
    TileEpilogue tile{.tile = Sums(row, rows, panel, 0, tile_)};
    if (w_.w.gated()) tile.up = Sums(row, rows, panel, 1, up_tile_);
    if (x_.scales != nullptr) tile.row_scales = x_.scales + row;
    tile.ld = kPanel;
    tile.out = epilogue_.out.Slice(row, rows).Cols(panel * kPanel, w_.columns(panel));
    tile.add = epilogue_.add;
    tile.activation = epilogue_.activation;
    Finish(tile);
  }

  // What belongs to the panel's columns lies apart from its weights: called for late, it would be waited for.
  void CallForEpilogue(int64_t panel) const {
    for (int up = 0; up <= static_cast<int>(w_.w.gated()); ++up) {
      Prefetch(w_.bias(panel, up));
      if (x_.scales == nullptr) continue;
      Prefetch(w_.scales(panel, up));
      Prefetch(w_.offsets(panel, up));
    }
  }

  static void Prefetch(const void* columns) {
    for (int64_t i = 0; i < kPanel * kColumnBytes; i += kAlignment)
      __builtin_prefetch(static_cast<const char*>(columns) + i);
  }

  PanelTile Sums(int64_t row, int64_t rows, int64_t panel, int up, float* sums) const {
    const int64_t in = SummedIn(), stretch = StretchIn(in), size = SizeOf(x_.rows.dtype);
    const int64_t width = w_.width(panel);
    for (int64_t k = 0; k < in; k += stretch) {
      const Rows a{x_.rows.dtype, x_.rows.at(row, k), rows, std::min(stretch, in - k), x_.rows.stride};
      const std::byte* b = w_.weights(panel, up) + k * width * size;
      if (width == kPanel && CanMultiplyFewRows(a)) {
        const PanelPiece whole{b, a.cols};
        MultiplyFewRows({a, {&whole, 1}, sums, k > 0});
      } else {
        Multiply(a, b, width, sums, k > 0);
      }
    }
    return {sums, w_.bias(panel, up), w_.scales(panel, up), w_.offsets(panel, up)};
  }

  static void Multiply(const Rows& a, const void* b, int64_t width, float* sums, bool add) {
    const int rows = RoundRows(static_cast<int>(a.rows)), n = static_cast<int>(width);
    MicroKernel::Get({.a = a.dtype,
                      .m = rows,
                      .n = n,
                      .k = static_cast<int>(a.cols),
                      .lda = a.stride,
                      .ldb = n,
                      .ldc = kPanel,
                      .add = add})
        ->Run(a.data, b, sums);
  }

  // Quantized rows are as long as their panels. What follows other rows may be NaN, which zeros do not stop.
  int64_t SummedIn() const {
    return w_.w.precision() == Precision::kInt8 ? PackedIn(w_.w.in(), Precision::kInt8) : w_.w.in();
  }

  // K in equal stretches, fixed for a product: its bits depend on them.
  int64_t StretchIn(int64_t in) const {
    const int64_t stretches = (in * SizeOf(x_.rows.dtype) + kStretchBytes - 1) / kStretchBytes;
    return RoundUp((in + stretches - 1) / stretches, 64);
  }

  const GemmInput& x_;
  const GemmAccess w_;
  const Epilogue& epilogue_;
  const int64_t block_rows_;
  float* tile_;  // s32 in int8
  float* up_tile_;
};

}  // namespace

int64_t GemmScratchBytes() { return 2 * kMaxBlockRows * kPanel * static_cast<int64_t>(sizeof(float)); }

absl::StatusOr<Precision> ParsePrecision(std::string_view text) {
  if (text == "auto") return Supported(Precision::kBf16);
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    if (text == Name(precision)) return precision;
  }
  return Invalid("precision '", text, "' is none of auto, f32, bf16, int8");
}

std::string_view Name(Precision precision) {
  switch (precision) {
    case Precision::kF32:
      return "f32";
    case Precision::kBf16:
      return "bf16";
    case Precision::kInt8:
      return "int8";
  }
  LOG(FATAL) << "no such precision: " << static_cast<int>(precision);
}

Precision Supported(Precision wanted) { return HasMicroKernel(InputType(wanted)) ? wanted : Precision::kF32; }

DType ActivationType(Precision precision) {
  return precision != Precision::kF32 && HasMicroKernel(DType::kBf16) ? DType::kBf16 : DType::kF32;
}

void Gemm(Team& team, const GemmInput& x, const PackedWeights& w, const Epilogue& epilogue,
          Scratch& scratch) {
  CHECK(x.rows.dtype == InputType(w.precision()))
      << Name(x.rows.dtype) << " rows for " << Name(w.precision());
  CHECK(x.rows.cols == w.in() && epilogue.out.cols == w.out() && epilogue.out.rows >= x.rows.rows);
  CHECK((x.scales != nullptr) == (w.precision() == Precision::kInt8));
  CHECK(!epilogue.add || epilogue.out.dtype == DType::kF32);
  if (x.rows.rows > 0) Product(x, w, epilogue, scratch).Compute(team.Share(GemmAccess{w}.panels()));
}

namespace {

// From one int8 row to the next, not a multiple of 2 KiB.
int64_t QuantizedPitch(int64_t in) { return RoundUp(in, 64) + (in % 2048 > 1984 || in % 2048 == 0 ? 64 : 0); }

}  // namespace

void GemmOfActivations(Team& team, const Rows& x, const PackedWeights& w, const Epilogue& epilogue,
                       Scratch& scratch) {
  const ScratchFrame frame(scratch);
  if (w.precision() != Precision::kInt8) return Gemm(team, {x}, w, epilogue, scratch);
  const int64_t pitch = QuantizedPitch(x.cols), rows = RoundRows(static_cast<int>(x.rows));
  const Rows quantized{DType::kU8, scratch.Take<uint8_t>(rows * pitch), x.rows, x.cols, pitch};
  float* scales = scratch.Take<float>(rows);
  Team alone;
  Quantize(alone, x, quantized, scales);
  Gemm(team, {quantized, scales}, w, epilogue, scratch);
}

int64_t GemmOfActivationsScratchBytes(Precision precision, int64_t rows, int64_t in) {
  if (precision != Precision::kInt8) return GemmScratchBytes();
  rows = RoundRows(static_cast<int>(rows));
  return GemmScratchBytes() + Scratch::Piece(rows * QuantizedPitch(in)) +
         Scratch::Piece(rows * SizeOf(DType::kF32));
}

}  // namespace heed
