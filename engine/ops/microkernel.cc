// A table of generated kernels, and what a thread needs to run them: its tile registers set (AMX), scratch
// memory, a count.
#include "engine/ops/microkernel.h"

#define DNNL_EXPERIMENTAL_UKERNEL
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <oneapi/dnnl/dnnl_ukernel.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "absl/log/check.h"
#include "absl/log/log.h"
#include "engine/base/memory.h"
#include "engine/base/status.h"

// Of the OpenMP library that Debian's oneDNN brings along; absent with other builds of it.
extern "C" void omp_set_num_threads(int) __attribute__((weak));

namespace heed {
namespace {

void Check(dnnl_status_t status, const char* what) {
  CHECK(status == dnnl_success) << "oneDNN: " << what << ": " << dnnl_status2str(status);
}

// The masks nest: a CPU has an extension if it has all bits of the first ISA that includes it.
bool Has(dnnl_cpu_isa_t isa) { return (dnnl_get_effective_cpu_isa() & isa) == isa; }

using Known = std::pair<MicroKernel::Shape, const MicroKernel*>;

// What one thread holds. Its count is read by others, and only it writes it: no contention.
struct WorkCount {
  int64_t calls = 0, multiply_adds = 0;
  WorkCount& operator+=(const WorkCount& other) {
    calls += other.calls;
    multiply_adds += other.multiply_adds;
    return *this;
  }
};

class ThreadState {
 public:
  ThreadState();
  ~ThreadState();

  void Count(int64_t multiply_adds) {
    Add(calls_, 1);
    Add(multiply_adds_, multiply_adds);
  }
  WorkCount count() const {
    return {calls_.load(std::memory_order_relaxed), multiply_adds_.load(std::memory_order_relaxed)};
  }

  void SetTiles(dnnl_brgemm_t kernel) {
    if (tiles_of_ == kernel) return;
    ReleaseTiles();
    Check(dnnl_brgemm_set_hw_context(kernel), "set_hw_context");
    tiles_of_ = kernel;
  }
  void ReleaseTiles() {
    if (tiles_of_ == nullptr) return;
    Check(dnnl_brgemm_release_hw_context(), "release_hw_context");
    tiles_of_ = nullptr;
  }

  // The place where this thread remembers a shape's kernel, or another shape's that was here later.
  Known& Remembered(const MicroKernel::Shape& s) {
    const uint64_t mixed =
        (s.m + 131 * s.n + 31 * s.k + 7 * s.lda + 3 * s.batch + s.add) * 0x9e3779b97f4a7c15u;
    return remembered_[mixed >> 57];
  }

  void* Scratchpad(size_t bytes) {
    if (scratchpad_.size() < bytes) scratchpad_ = Buffer(bytes);
    return scratchpad_.as<void>();
  }

 private:
  // Written by this thread alone.
  static void Add(std::atomic<int64_t>& sum, int64_t n) {
    sum.store(sum.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::atomic<int64_t> calls_ = 0, multiply_adds_ = 0;
  dnnl_brgemm_t tiles_of_ = nullptr;
  Buffer scratchpad_;
  std::array<Known, 128> remembered_;
};

// All threads' counts.
struct CallCount {
  std::mutex mutex;
  std::set<const ThreadState*> threads;
  WorkCount of_ended_threads;
};
CallCount& Counts() {
  static auto* counts = new CallCount;  // outlives every thread
  return *counts;
}

ThreadState::ThreadState() {
  std::lock_guard lock(Counts().mutex);
  Counts().threads.insert(this);
}
ThreadState::~ThreadState() {
  ReleaseTiles();
  std::lock_guard lock(Counts().mutex);
  Counts().threads.erase(this);
  Counts().of_ended_threads += count();
}

thread_local ThreadState this_thread;

WorkCount AllThreads() {
  std::lock_guard lock(Counts().mutex);
  WorkCount sum = Counts().of_ended_threads;
  for (const ThreadState* thread : Counts().threads) sum += thread->count();
  return sum;
}

dnnl_data_type_t TypeOfB(DType a) {
  return a == DType::kU8 ? dnnl_s8 : a == DType::kBf16 ? dnnl_bf16 : dnnl_f32;
}
dnnl_data_type_t TypeOfA(DType a) { return a == DType::kU8 ? dnnl_u8 : TypeOfB(a); }
dnnl_data_type_t TypeOfC(DType a) { return a == DType::kU8 ? dnnl_s32 : dnnl_f32; }

}  // namespace

bool HasMicroKernel(DType a) {
  switch (a) {
    case DType::kF32:
      return true;
    case DType::kBf16:
      return Has(dnnl_cpu_isa_avx512_core_bf16);
    case DType::kU8:  // older ones saturate sums of pairs
      return Has(dnnl_cpu_isa_avx512_core_vnni) || Has(dnnl_cpu_isa_avx2_vnni);
    default:
      return false;
  }
}

bool MicroKernelUsesTiles() { return Has(dnnl_cpu_isa_avx512_core_amx); }

std::string MicroKernelLibrary() {
  const dnnl_version_t* version = dnnl_version();
  return Cat("oneDNN ", version->major, ".", version->minor, ".", version->patch);
}

std::string MicroKernelIsa() {
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41:
      return "sse41";
    case dnnl_cpu_isa_avx:
      return "avx";
    case dnnl_cpu_isa_avx2:
      return "avx2";
    case dnnl_cpu_isa_avx2_vnni:
      return "avx2_vnni";
    case dnnl_cpu_isa_avx2_vnni_2:
      return "avx2_vnni_2";
    case dnnl_cpu_isa_avx512_core:
      return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_fp16:
      return "avx512_core_fp16";
    case dnnl_cpu_isa_avx512_core_amx:
      return "avx512_core_amx";
    case dnnl_cpu_isa_avx512_core_amx_fp16:
      return "avx512_core_amx_fp16";
    default:
      return "unknown";
  }
}

MicroKernel::MicroKernel(const Shape& s) {
  CHECK(HasMicroKernel(s.a)) << "no micro-kernel for " << heed::Name(s.a) << " on this CPU";
  CHECK(s.m > 0 && s.n > 0 && s.k > 0 && s.batch > 0);
  CHECK(s.lda >= s.k && s.ldb >= s.n && s.ldc >= s.n) << "oneDNN accepts these and computes nonsense";
  // Tiles hold whole groups of 2 or 4 along K; the shape's contract has zeros there in B.
  const int group = !MicroKernelUsesTiles() ? 1 : s.a == DType::kU8 ? 4 : s.a == DType::kBf16 ? 2 : 1;
  const int k = (s.k + group - 1) / group * group;
  dnnl_brgemm_t kernel;
  Check(dnnl_brgemm_create(&kernel, s.m, s.n, k, s.batch, s.lda, s.ldb, s.ldc, TypeOfA(s.a), TypeOfB(s.a),
                           TypeOfC(s.a)),
        "create");
  Check(dnnl_brgemm_set_add_C(kernel, s.add), "set_add_C");
  Check(dnnl_brgemm_finalize(kernel), "finalize");
  Check(dnnl_brgemm_get_scratchpad_size(kernel, &scratchpad_bytes_), "get_scratchpad_size");
  Check(dnnl_brgemm_generate(kernel), "generate");
  brgemm_ = kernel;
  tiles_ = MicroKernelUsesTiles() && s.a != DType::kF32;
  multiply_adds_ = int64_t{s.m} * s.n * s.k * s.batch;
}

const MicroKernel* MicroKernel::Get(const Shape& shape) {
  Known& known = this_thread.Remembered(shape);
  if (known.second == nullptr || known.first != shape) known = {shape, FromTable(shape)};
  return known.second;
}

const MicroKernel* MicroKernel::FromTable(const Shape& shape) {
  static std::mutex mutex;
  static auto* table = new std::map<Shape, std::unique_ptr<const MicroKernel>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<const MicroKernel>& kernel = (*table)[shape];
  if (!kernel) {
    if (omp_set_num_threads != nullptr) omp_set_num_threads(1);  // only the engine's own threads compute
    kernel.reset(new MicroKernel(shape));
  }
  return kernel.get();
}

void MicroKernel::Run(const void* a, const void* b, void* c) const {
  static constexpr Offsets kNone = {0, 0};
  Run(a, b, &kNone, c);
}

void MicroKernel::Run(const void* a, const void* b, const Offsets* offsets, void* c) const {
  static_assert(sizeof(Offsets) == 2 * sizeof(dnnl_dim_t));
  ThreadState& thread = this_thread;
  thread.Count(multiply_adds_);
  auto* kernel = static_cast<dnnl_brgemm_t>(brgemm_);
  if (tiles_) thread.SetTiles(kernel);
  void* scratchpad = scratchpad_bytes_ > 0 ? thread.Scratchpad(scratchpad_bytes_) : nullptr;
  dnnl_brgemm_execute(kernel, a, b, reinterpret_cast<const dnnl_dim_t*>(offsets), c, scratchpad);
}

void MicroKernel::Multiply(const Rows& a, const void* b, int64_t ldb, Matrix<float> c, bool add) {
  Get({.a = a.dtype,
       .m = static_cast<int>(a.rows),
       .n = static_cast<int>(c.cols),
       .k = static_cast<int>(a.cols),
       .lda = a.stride,
       .ldb = ldb,
       .ldc = c.stride,
       .add = add})
      ->Run(a.data, b, c.data);
}

void MicroKernel::CountCall(int64_t multiply_adds) { this_thread.Count(multiply_adds); }

int64_t MicroKernel::Calls() { return AllThreads().calls; }
int64_t MicroKernel::MultiplyAdds() { return AllThreads().multiply_adds; }

}  // namespace heed
