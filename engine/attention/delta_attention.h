// What layers of the delta rule have in common. A head's state, [key_dim, value_dim], fades, and what it
// holds for a key moves towards the key's value:
//   [q, k, v] = silu(convolution([q, k, v])), causal;  q, k of length one, q / sqrt(key_dim)
//   S = fading S,  S = S + k' (factor sigmoid(b) (v - k S)),  y = q S
//   out = RMS norm of each head's y, gated
// A variant says what fades and by how much, and how the gate gates.
#ifndef HEED_ENGINE_ATTENTION_DELTA_ATTENTION_H_
#define HEED_ENGINE_ATTENTION_DELTA_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/attention/causal_convolution.h"
#include "engine/attention/recurrence.h"

namespace heed {

struct DeltaOptions {
  int64_t heads = 0;
  int64_t key_heads = 0;  // each serves heads / key_heads heads, one after another
  int64_t key_dim = 0, value_dim = 0;
  int64_t kernel = 4;   // taps of the convolution
  int64_t fadings = 1;  // of a head: 1, of all its state, or key_dim, of each of the state's rows
  float eps = 0;        // of the norm
  float factor = 1;     // of the sigmoid of b

  int64_t keys() const { return key_heads * key_dim; }
  int64_t values() const { return heads * value_dim; }
  int64_t channels() const { return 2 * keys() + values(); }
  int64_t all_fadings() const { return heads * fadings; }
};

struct DeltaTensors {
  std::vector<Product> products;  // q, k, v, two of the variant's own, b, then what they read
  CausalConvolution convolution;  // of q, k, v side by side
  std::vector<float> rates;       // [all_fadings], -exp(a_log), a head's all the same
  std::vector<float> step_bias;   // [all_fadings]
  std::vector<float> norm;        // [value_dim]
};

// Tensors: convolution.weight [channels, kernel] and convolution.bias, a_log [heads], dt_bias [all_fadings],
// norm.weight [value_dim].
absl::StatusOr<DeltaTensors> LoadDeltaTensors(const DeltaOptions& options, std::vector<Product> products,
                                              const WeightScope& scope);

// What steps hand on of a row: q, k, v, then the heads' fadings, then their betas. y takes the place of v.
// Const and thread-safe.
class DeltaAttention : public RecurrentAttention {
 public:
  DeltaAttention(const DeltaOptions& options, DeltaTensors tensors);
  std::vector<AttentionStage> Steps(int64_t rows) const override;
  void Do(const RecurrentRows& rows, int step, int64_t task, Scratch& scratch) const override;

 protected:
  // Of a few of these rows: how much of the state stays, [few, all_fadings], from 0 to 1.
  virtual void Fade(const RecurrentRows& rows, Range few, Matrix<float> fadings) const = 0;
  // Of a few of these rows: y, [few, values], times the gate is what the layer gives. May change y.
  virtual void Gate(const RecurrentRows& rows, Range few, Matrix<float> y) const = 0;
  const DeltaTensors& tensors() const { return t_; }

 private:
  int64_t convolved() const { return 2 * o_.key_heads + o_.heads; }  // heads of q, k and v
  void Convolve(const RecurrentRows& rows, int64_t head, Scratch& scratch) const;
  void Weigh(const RecurrentRows& rows, Range few) const;
  void Scan(const RecurrentRows& rows, int64_t head) const;
  void Finish(const RecurrentRows& rows, Range few) const;

  DeltaOptions o_;
  DeltaTensors t_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_DELTA_ATTENTION_H_
