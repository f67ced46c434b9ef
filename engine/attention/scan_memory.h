// What a linear scan remembers of one head (linear_scan.h): a matrix of sums and a norm, and what a block of
// rows adds to them.
#ifndef HEED_ENGINE_ATTENTION_SCAN_MEMORY_H_
#define HEED_ENGINE_ATTENTION_SCAN_MEMORY_H_

#include <cstdint>

#include "engine/base/archive.h"
#include "engine/base/memory.h"
#include "engine/base/round.h"
#include "engine/tensor/tensor.h"

namespace heed {

struct ScanShape {
  int64_t features = 0, head_dim = 0;
  bool scaled = false;  // with a peak

  int64_t columns() const { return RoundUp(head_dim, 16); }  // of values, zeros at their end
  int64_t sums() const { return features * (columns() + 1); }
  int64_t bytes() const { return (sums() + (scaled ? 1 : 0)) * static_cast<int64_t>(sizeof(float)); }
};

// A view of sums over keys, wherever they lie. Scaled: the sums are divided by exp(peak), the largest
// exponent of a key.
struct ScanSums {
  ScanShape shape;
  float* data = nullptr;

  Matrix<float> matrix() const { return {data, shape.features, shape.columns(), shape.columns()}; }
  float* norm() const { return data + shape.features * shape.columns(); }
  float peak() const { return shape.scaled ? data[shape.sums()] : 0; }
  void SetPeak(float peak) const { data[shape.sums()] = peak; }
};

// All that one head of one sequence remembers, the same size at any length. Copies are independent.
class ScanMemory {
 public:
  explicit ScanMemory(const ScanShape& shape);

  ScanSums sums() const { return {shape_, const_cast<Buffer&>(data_).as<float>()}; }
  // Takes in so many rows, of which these are the sums; they become what the memory was before.
  void Take(int64_t rows, const ScanSums& sums);
  // One row, of this exponent, which the caller adds to the sums: they are divided by a peak at least that.
  void TakeOne(float exponent);
  int64_t tokens() const { return tokens_; }

  // The numbers; how many rows they stem from is the caller's to keep.
  void Archive(StateArchive& archive, int64_t tokens);

 private:
  ScanShape shape_;
  int64_t tokens_ = 0;
  Buffer data_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_SCAN_MEMORY_H_
