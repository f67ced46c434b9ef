#include "engine/attention/scan_memory.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/ops/rows.h"
#include "engine/ops/scan.h"

namespace heed {
namespace {

// All of them, as one row.
Matrix<float> Numbers(const ScanSums& sums) { return {sums.data, 1, sums.shape.sums(), sums.shape.sums()}; }

}  // namespace

ScanMemory::ScanMemory(const ScanShape& shape) : shape_(shape), data_(Buffer::Zeros(shape.bytes())) {
  if (shape.scaled) sums().SetPeak(std::numeric_limits<float>::lowest());
}

void ScanMemory::Take(int64_t rows, const ScanSums& sums) {
  const ScanSums own = this->sums();
  const float before = own.peak(), peak = std::max(before, sums.peak());
  AddAndKeep(std::exp(before - peak), Numbers(own), std::exp(sums.peak() - peak), Numbers(sums));
  if (shape_.scaled) {
    own.SetPeak(peak);
    sums.SetPeak(before);
  }
  tokens_ += rows;
}

void ScanMemory::TakeOne(float exponent) {
  ++tokens_;
  const ScanSums own = sums();
  if (!shape_.scaled || !(exponent > own.peak())) return;
  Scale(std::exp(own.peak() - exponent), Numbers(own));
  own.SetPeak(exponent);
}

void ScanMemory::Archive(StateArchive& archive, int64_t tokens) {
  if (archive.restoring()) tokens_ = tokens;
  archive.Bytes(data_, static_cast<int64_t>(data_.size()));
}

}  // namespace heed
