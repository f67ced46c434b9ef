// Products with weights, which come from memory as in a model: the copies of the weights take turns and
// together are far larger than the caches. Each row beside its limit (compute or memory, whichever is longer)
// and, from 256 rows on, beside oneDNN's matmul primitive with weights in the format of its own choice, on as
// many threads.
#include <oneapi/dnnl/dnnl.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/base/memory.h"
#include "engine/base/status.h"
#include "engine/ops/gemm.h"
#include "tests/bench/sections.h"

extern "C" void omp_set_num_threads(int) __attribute__((weak));

namespace heed {
namespace {

constexpr int64_t kMinComputeRows = 64;  // from here on reading the weights is no limit
constexpr int64_t kMinRowsOfPeer = 256;
constexpr double kWeightBytes = 200e6;

struct Shape {
  int64_t in, out;
};

// Enough sets of weights that none is in the cache when its turn comes.
int Copies(double bytes) { return static_cast<int>(std::max(2.0, kWeightBytes / bytes)); }

class OurProduct {
 public:
  OurProduct(Threads& threads, Shape shape, Precision precision)
      : threads_(threads), shape_(shape), precision_(precision) {
    const std::vector<float> weight(shape.out * shape.in, 0.01f), bias(shape.out, 1);
    const PackedWeights::Part part{{DType::kF32, {shape.out, shape.in}, weight.data()},
                                   {DType::kF32, {shape.out}, bias.data()}};
    weights_.push_back(PackedWeights::Pack({part}, precision));
    weights_.resize(Copies(weights_[0].bytes()), weights_[0]);
    scratch_.resize(threads.count());
  }

  int64_t weight_bytes() const { return weights_[0].bytes(); }

  void SetRows(int64_t rows) {
    const DType type = precision_ == Precision::kInt8 ? DType::kU8 : ActivationType(precision_);
    input_ = Matrix(type, rows, shape_.in);
    output_ = Matrix(ActivationType(precision_), rows, shape_.out);
    scales_.assign(rows, 0.01f);
  }

  int copies() const { return static_cast<int>(weights_.size()); }

  void Run() {
    const PackedWeights& w = weights_[next_++ % weights_.size()];
    const GemmInput x{input_.rows, precision_ == Precision::kInt8 ? scales_.data() : nullptr};
    threads_.RunTeam([&](Team& team) {
      Gemm(team, x, w, {output_.rows}, scratch_[team.rank()]);
      scratch_[team.rank()].Reset();
    });
  }

 private:
  struct Matrix {
    Matrix() = default;
    Matrix(DType type, int64_t count, int64_t cols) {
      int64_t stride = (cols + 63) / 64 * 64;
      if (stride * SizeOf(type) % 2048 == 0) stride += 64;
      memory = Buffer::Zeros((count + 8) * stride * SizeOf(type));
      rows = {type, memory.as<void>(), count, cols, stride};
    }
    Buffer memory;
    Rows rows;
  };

  Threads& threads_;
  const Shape shape_;
  const Precision precision_;
  std::vector<PackedWeights> weights_;
  std::vector<Scratch> scratch_;
  Matrix input_, output_;
  std::vector<float> scales_;
  size_t next_ = 0;
};

// oneDNN's matmul primitive: the same sums, bias, types and copies.
class Peer {
 public:
  Peer(Shape shape, int64_t rows, Precision precision, int threads) : threads_(threads) {
    using dnnl::memory;
    const auto type = precision == Precision::kBf16 ? memory::data_type::bf16 : memory::data_type::f32;
    const memory::desc x({rows, shape.in}, type, memory::format_tag::ab);
    const memory::desc w({shape.in, shape.out}, type, memory::format_tag::any);
    const memory::desc bias({1, shape.out}, memory::data_type::f32, memory::format_tag::ab);
    const memory::desc y({rows, shape.out}, type, memory::format_tag::ab);
    UseThreads(threads_);
    const dnnl::matmul::primitive_desc description(engine_, x, w, bias, y);
    matmul_ = dnnl::matmul(description);
    auto zeros = [&](const memory::desc& desc) {
      buffers_.push_back(Buffer::Zeros(desc.get_size()));
      return memory(desc, engine_, buffers_.back().as<void>());
    };
    arguments_ = {{DNNL_ARG_SRC, zeros(x)}, {DNNL_ARG_BIAS, zeros(bias)}, {DNNL_ARG_DST, zeros(y)}};
    const int copies = Copies(description.weights_desc().get_size());
    for (int i = 0; i < copies; ++i) weights_.push_back(zeros(description.weights_desc()));
  }

  void Run() {
    UseThreads(threads_);
    arguments_[DNNL_ARG_WEIGHTS] = weights_[next_++ % weights_.size()];
    matmul_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  static void UseThreads(int threads) {
    if (omp_set_num_threads != nullptr) omp_set_num_threads(threads);
  }

  const int threads_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul matmul_;
  std::vector<Buffer> buffers_;
  std::vector<dnnl::memory> weights_;
  std::unordered_map<int, dnnl::memory> arguments_;
  size_t next_ = 0;
};

struct Timing {
  double product;   // seconds
  double read = 0;  // of reading as many bytes as the weights have; 0 where that is no limit
};

// Few rows are over in microseconds, and some weights are still in the cache from the last time around: there
// a measurement is a way through all the copies, by turns with one through as much of `memory`.
Timing TimeOf(OurProduct& product, int64_t rows, ColdMemory& memory, LimitsNow& limits) {
  limits.Reset();
  limits.Measure();
  if (rows >= kMinComputeRows) return {LeastSeconds({[&] { product.Run(); }, [&] { limits.Measure(); }})[0]};
  auto each = [&](auto once) {
    return [&product, once] {
      for (int i = 0; i < product.copies(); ++i) once();
    };
  };
  const std::vector<double> seconds =
      LeastSeconds({each([&] { product.Run(); }), each([&] { memory.Read(product.weight_bytes()); })}, 0.4);
  return {seconds[0] / product.copies(), seconds[1] / product.copies()};
}

// Its threads spin for a while after each product, on our cores.
void LetPeerFallAsleep() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

// The time of the peer, beside ours measured by turns; 0 where there is none to compare with.
double TimeOfPeer(OurProduct& ours, Shape shape, int64_t rows, Precision precision, int threads,
                  double& our_seconds) {
  if (rows < kMinRowsOfPeer || precision == Precision::kInt8) return 0;
  Peer peer(shape, rows, precision, threads);
  double seconds = 1e9;
  for (int round = 0; round < 3; ++round) {
    seconds = std::min(seconds, LeastSeconds({[&] { peer.Run(); }}, 0.1)[0]);
    LetPeerFallAsleep();
    our_seconds = std::min(our_seconds, LeastSeconds({[&] { ours.Run(); }}, 0.1)[0]);
  }
  return seconds;
}

}  // namespace

void GemmSection(Threads& threads) {
  Table table({"in x out", "rows", "precision", "time", "speed", "bound by           ", "of the limit",
               "oneDNN", "its / ours"});
  ColdMemory memory(threads);
  for (Shape shape : {Shape{768, 768}, {768, 3072}, {3072, 768}, {576, 1536}, {576, 49152}}) {
    for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
      if (Supported(precision) != precision) continue;
      OurProduct product(threads, shape, precision);
      LimitsNow limits(threads, precision);
      for (int64_t rows : {1, 4, 16, 64, 256, 2048}) {
        product.SetRows(rows);
        Timing time = TimeOf(product, rows, memory, limits);
        const double peer = TimeOfPeer(product, shape, rows, precision, threads.count(), time.product);
        const double operations = 2.0 * rows * shape.in * shape.out, bytes = product.weight_bytes();
        const double compute = operations / limits.operations();
        const bool memory_bound = time.read > compute;
        table.Row({Cat(shape.in, " x ", shape.out), Cat(rows), Cat(Name(precision)),
                   Milliseconds(time.product),
                   memory_bound ? Rate(bytes / time.product, "B/s") : Rate(operations / time.product, "OP/s"),
                   memory_bound ? Cat("memory at ", Rate(bytes / time.read, "B/s")) : "compute",
                   Percent(std::max(compute, time.read) / time.product), peer > 0 ? Milliseconds(peer) : "",
                   peer > 0 ? Times(peer / time.product) : ""});
      }
    }
  }
}

}  // namespace heed
