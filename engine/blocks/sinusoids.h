// Sinusoidal positions (Vaswani et al. 2017), interleaved: even columns sine, odd columns cosine of
// position / 10000^(2i/width).
#ifndef HEED_ENGINE_BLOCKS_SINUSOIDS_H_
#define HEED_ENGINE_BLOCKS_SINUSOIDS_H_

#include <complex>
#include <cstdint>
#include <vector>

namespace heed {

// A position's angle is that of the multiple of 256 below it and of what is left: both are looked up, as
// e^(i angle), and multiplied. Only beyond the table's 65,536 positions the first is computed, per column.
// Const and thread-safe.
class Sinusoids {
 public:
  Sinusoids() = default;  // of no columns
  explicit Sinusoids(int64_t width);
  // x[0, width) += the position's. Errors are those of rounding to f32.
  void Add(int64_t position, float* x) const;
  int64_t bytes() const { return std::ssize(turns_) * static_cast<int64_t>(sizeof(Turn)); }  // of the table

 private:
  using Turn = std::complex<double>;
  const Turn* Row(int64_t row) const { return &turns_[row * std::ssize(frequencies_)]; }

  int64_t width_ = 0;
  std::vector<double> frequencies_;
  std::vector<Turn> turns_;  // of positions 0 .. 255, then of the multiples of 256: a row each
};

}  // namespace heed

#endif  // HEED_ENGINE_BLOCKS_SINUSOIDS_H_
