// Every product with weights: y = epilogue(x W' + b).
//
// The weights are packed once into panels of 64 outputs, the whole K of a panel together, as the micro-kernel
// reads them. A call computes a tile of [rows, 64] in f32 (s32 for int8) and writes it out through the
// epilogue while it is hot. The sum always runs in K's order, in one piece or (long ones) in pieces that only
// K and the precision decide, so a row's result does not depend on the rows beside it, on how many there are,
// or on how many threads share the panels.
#ifndef HEED_ENGINE_OPS_GEMM_H_
#define HEED_ENGINE_OPS_GEMM_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/memory.h"
#include "engine/base/threads.h"
#include "engine/tensor/tensor.h"

namespace heed {

// What a model computes in; chosen when it is loaded.
//   kF32:  everything in float: the definition, within 1e-4 of the oracle.
//   kBf16: products of bf16 numbers with f32 sums; activations between products are bf16; the residual
//          stream, norms, softmax and recurrent states f32.
//   kInt8: products of weights in int8 (a scale for each output) with activations in int8 (a scale for each
//          row, found at run time); all else as kBf16 where the CPU has bf16 kernels, else as kF32.
enum class Precision { kF32, kBf16, kInt8 };

// "f32", "bf16", "int8"; "auto" is bf16 where the CPU has bf16 kernels, else f32. Anything else is an error.
absl::StatusOr<Precision> ParsePrecision(std::string_view text);
std::string_view Name(Precision precision);

// What can be computed here: bf16 and int8 fall back to f32 where the CPU has no kernels for them.
Precision Supported(Precision wanted);

// The type of activations between products: kBf16 for bf16 and int8 where there are bf16 kernels, else kF32.
DType ActivationType(Precision precision);

enum class Activation {
  kNone,
  kRelu,
  kGelu,
  kGeluTanh,
  kSilu,
  kSelu,
  kTanh,
  kQuickGelu,
  kRelu2,
  kClampedGate,  // of a gated product: the quick gelu of what is at most 7, times 1 + the other in [-7, 7]
};

// The weights of one product, [out, in] in the file, packed. Const after Pack: shared by all threads.
class PackedWeights {
 public:
  PackedWeights() = default;
  // Several matrices side by side as one product: outputs of parts[0], then of parts[1], ... All have the
  // same `in`. `bias` of a part may be empty (data == nullptr). Each part begins at a multiple of 16 of the
  // packed outputs; offset(i) says where.
  struct Part {
    Tensor weight;  // [out, in], any float type
    Tensor bias;    // [out] or empty
  };
  static PackedWeights Pack(const std::vector<Part>& parts, Precision precision);

  // Two matrices of a gated feed-forward: y = activation(x gate' + b) * (x up' + c). Panels alternate, so
  // that both tiles of the same outputs are hot together. offset and out are those of one of the two.
  static PackedWeights PackGated(const Part& gate, const Part& up, Precision precision);

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }  // of all parts, gaps between them included, none after the last
  int64_t offset(int part) const { return offsets_[part]; }
  bool gated() const { return gated_; }
  Precision precision() const { return precision_; }
  int64_t bytes() const;

 private:
  friend struct GemmAccess;
  friend class PanelWriter;
  Precision precision_ = Precision::kF32;
  bool gated_ = false;
  int64_t in_ = 0, out_ = 0;
  std::vector<int64_t> offsets_;
  Buffer panels_, bias_;
  Buffer scales_, offsets128_;  // int8: of each output, its scale and 128 * the sum of its weights
};

// Activations as a product reads them: f32 or bf16 rows, or int8 rows with their scales (made by Quantize),
// as the weights' precision() says. Memory must be readable, whatever it holds, up to RoundRows(rows) rows. A
// stride that is a multiple of 2 KiB is slow: such rows fight for the same sets of the cache.
struct GemmInput {
  Rows rows;                      // dtype kF32, kBf16, or kU8 (value + 128)
  const float* scales = nullptr;  // [rows], kU8 only: number = (u8 - 128) * scale
};

// What becomes of a product's results.
struct Epilogue {
  Rows out;                                   // [rows, out] kF32 or kBf16
  bool add = false;                           // out += instead of out =; f32 only. The residual connection
  Activation activation = Activation::kNone;  // after the bias; of the gate in a gated product
};

// Computes all rows. The members of the team share the panels; no barrier inside: the caller puts one before
// anybody reads `out`. Each member's scratch is its own.
void Gemm(Team& team, const GemmInput& x, const PackedWeights& w, const Epilogue& epilogue, Scratch& scratch);

// Closed form: the most scratch that a member takes, in a product of any shape.
int64_t GemmScratchBytes();

// The same for rows of the activation type, whatever the precision: each member makes what the product reads
// of all rows for itself. For few rows, or one member.
void GemmOfActivations(Team& team, const Rows& x, const PackedWeights& w, const Epilogue& epilogue,
                       Scratch& scratch);
int64_t GemmOfActivationsScratchBytes(Precision precision, int64_t rows, int64_t in);

// f32 or bf16 rows to int8 with a scale for each row (largest magnitude / 127), the form a product in kInt8
// reads. The members share the rows. `to` is kU8; its columns up to the next multiple of 64 are written too
// (its stride has room for them). `scales` [rows]; a row that holds a NaN or an infinity gets NaN, and so do
// its products.
void Quantize(Team& team, const Rows& from, const Rows& to, float* scales);

}  // namespace heed

#endif  // HEED_ENGINE_OPS_GEMM_H_
