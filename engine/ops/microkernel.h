// oneDNN's brgemm micro-kernel: C[m, n] (+)= sum over b of A_b[m, k] B_b[k, n], on one thread, in K's order.
// The result of a row does not depend on m, on its place among the rows or on n.
#ifndef HEED_ENGINE_OPS_MICROKERNEL_H_
#define HEED_ENGINE_OPS_MICROKERNEL_H_

#include <cstdint>
#include <utility>

#include "engine/tensor/tensor.h"

namespace heed {

// Whether this CPU (as ONEDNN_MAX_CPU_ISA limits it) has micro-kernels for a type of A and B:
// kF32 always; kBf16 with AVX512_BF16 or AMX; kU8 (A u8, B s8) with AVX-512 VNNI, AVX-VNNI or AMX.
bool HasMicroKernel(DType a);

// Whether kernels of bf16 and int8 run in AMX tiles here.
bool MicroKernelUsesTiles();

// The CPU's instruction sets that oneDNN uses, for logs and benches: "avx512_core_bf16".
std::string MicroKernelIsa();
// "oneDNN 3.7.1", as it was found at run time.
std::string MicroKernelLibrary();

class MicroKernel {
 public:
  // Distances count numbers. A is row-major [m, k]. B: f32 [k, n] row-major; bf16 [k/2, n, 2]; u8 x s8 [k/4,
  // n, 4] (k rounded up, the gap zero in B; A may hold anything finite there, but must be readable). C: f32,
  // or s32 for u8.
  struct Shape {
    DType a = DType::kF32;  // kF32, kBf16, kU8; B has the same type, s8 for kU8
    int m = 0, n = 0, k = 0;
    int batch = 1;
    int64_t lda = 0, ldb = 0, ldc = 0;
    bool add = false;  // C += instead of C =
    auto operator<=>(const Shape&) const = default;
  };
  // Byte offsets of A_b and B_b from the pointers given.
  using Offsets = std::pair<int64_t, int64_t>;

  // Generated at first use, kept for ever, one object for equal shapes. Thread-safe; takes a lock only where
  // the calling thread has not asked for the shape lately.
  static const MicroKernel* Get(const Shape& shape);

  void Run(const void* a, const void* b, void* c) const;  // batch 1
  void Run(const void* a, const void* b, const Offsets* offsets, void* c) const;

  // C (+)= A B, one call: the kernel of all of A's rows and C's columns; B as Shape says, ldb numbers wide.
  static void Multiply(const Rows& a, const void* b, int64_t ldb, Matrix<float> c, bool add = false);

  // How often Run was called in this process, for tests that count work. Exact once all threads are at rest.
  static int64_t Calls();
  // The multiply-adds of these calls, rows that are rounded up to and zeros included.
  static int64_t MultiplyAdds();
  // Counts one more call: a product made by hand in Run's stead.
  static void CountCall(int64_t multiply_adds);

 private:
  explicit MicroKernel(const Shape& shape);
  static const MicroKernel* FromTable(const Shape& shape);
  void* brgemm_;  // dnnl_brgemm_t, never freed
  bool tiles_;    // AMX: the thread's tile configuration is set before the first call and between kernels
  size_t scratchpad_bytes_ = 0;
  int64_t multiply_adds_;
};

// Rows to compute for `rows` wanted: exact up to 8, from there the next multiple of 8 (as fast, and a third
// of the kernels). The rows between are computed and ignored: A must be readable there and C writable.
inline int RoundRows(int rows) { return rows <= 8 ? rows : (rows + 7) / 8 * 8; }

}  // namespace heed

#endif  // HEED_ENGINE_OPS_MICROKERNEL_H_
