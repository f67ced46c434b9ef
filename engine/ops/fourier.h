// The discrete Fourier transform of any length, of several columns of complex numbers side by side:
//   X[k] = sum over j of x[j] exp(-2 pi i j k / n)
// Of a power of two by halves (Cooley and Tukey 1965), of another length n as a convolution with a chirp
// (Bluestein 1970) of the first power of two from 2 n - 1 on. Work grows as n log n.
#ifndef HEED_ENGINE_OPS_FOURIER_H_
#define HEED_ENGINE_OPS_FOURIER_H_

#include <cstdint>
#include <vector>

namespace heed {

// Const and thread-safe but for the memory that it is given.
class FourierTransform {
 public:
  static constexpr int64_t kColumns = 16;

  explicit FourierTransform(int64_t length);

  // `re` and `im`: Room(length) rows of kColumns numbers, of which the first `length` are the input, and then
  // the output; the others change too.
  void Run(float* re, float* im) const;

  static int64_t Room(int64_t length);   // rows; grows with the length
  static int64_t Bytes(int64_t length);  // of tables, at most; grows with the length
  static double Cost(int64_t length);    // multiply-adds of a run, all columns together

 private:
  void Halve(float* re, float* im) const;

  int64_t length_, size_;  // size_: the power of two
  // Of the circle's size_-th parts the first half; of the chirp's; of the chirp's transform, over size_.
  std::vector<float> cos_, sin_, chirp_cos_, chirp_sin_, kernel_re_, kernel_im_;
};

}  // namespace heed

#endif  // HEED_ENGINE_OPS_FOURIER_H_
