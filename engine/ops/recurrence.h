// Recurrences of one head, or of some channels, a row after another: the state fades, takes in what the row
// brings, and is read. Sums run in the order of the state's rows whatever the vectors, so that rows cut in
// pieces give the same bits. All f32.
#ifndef HEED_ENGINE_OPS_RECURRENCE_H_
#define HEED_ENGINE_OPS_RECURRENCE_H_

#include <cstdint>

#include "engine/ops/gemm.h"
#include "engine/tensor/tensor.h"

namespace heed {

// Row t: state = fading[t] state + keys[t]' (shares[t] x[t]),  y[t] = queries[t] state + skip x[t].
struct FadingRows {
  Matrix<const float> keys, queries;    // [rows, state.rows]
  Matrix<const float> fadings, shares;  // [rows, 1]; with a stride of 0 all rows have the same
  float skip = 0;
};
// x [rows, state.cols] becomes y.
void FadingScan(const FadingRows& rows, Matrix<float> state, Matrix<float> x);

// The delta rule (Yang et al. 2024): what the state holds for a key moves towards the key's value.
// Row t: S = fading[t] state,  state = S + keys[t]' (factor betas[t] (v[t] - keys[t] S)),
// y[t] = queries[t] state.
struct DeltaRows {
  Matrix<const float> keys, queries;  // [rows, state.rows]
  Matrix<const float> fadings;        // [rows, 1], or [rows, state.rows]: of each of its rows
  Matrix<const float> betas;          // [rows, 1]
  float factor = 1;                   // of the betas
};
// v [rows, state.cols] becomes y.
void DeltaScan(const DeltaRows& rows, Matrix<float> state, Matrix<float> v);

// Of channels c that fade each at its own rates. Row t, for each n:
//   state[n, c] = exp(rates[n, c] steps[t, c]) state[n, c] + inputs[t, n] steps[t, c] x[t, c]
//   y[t, c] = sum over n of outputs[t, n] state[n, c] + skips[c] x[t, c]
struct ChannelRows {
  Matrix<const float> steps;            // [rows, channels], no less than 0
  Matrix<const float> inputs, outputs;  // [rows, state.rows]
  Matrix<const float> rates;            // [state.rows, channels], no more than 0
  const float* skips = nullptr;         // [channels]
};
// x [rows, channels] becomes y.
void ChannelScan(const ChannelRows& rows, Matrix<float> state, Matrix<float> x);

// Row t: state = fadings[t] state + x[t], which x[t] becomes.
void FadingSums(Matrix<const float> fadings, float* state, Matrix<float> x);

// A mean of all values so far, weighted by keys that fade (RWKV, Peng et al. 2023), of which a row's are the
// sum of its own and of what the row before brings. With a, b and m the state's last three rows,
//   k = k[t] + k_before[t - 1] and so on,  p = max(m, bonus + k)
//   out[t] = sigmoid(r) (exp(m - p) a + exp(bonus + k - p) v) / (exp(m - p) b + exp(bonus + k - p))
//   m' = max(m + decay, k),  a = exp(m + decay - m') a + exp(k - m') v, b likewise with 1 for v
// Rows are all f32 or all bf16.
struct WkvRows {
  Rows k, k_before, v, v_before, r, r_before;
  const float *decays = nullptr, *bonus = nullptr;  // [columns], decays no more than 0
};
inline constexpr int64_t kWkvState = 6;  // rows: k_before, v_before, r_before of the last row; a, b, m
void WkvScan(const WkvRows& rows, Matrix<float> state, const Rows& out);

// y[t] = activation(x[t] + before[t - 1]); before[-1] is the state, which becomes the last of them. kNone or
// kRelu2. x and before are both f32 or both bf16.
void AddRowBefore(const Rows& x, const Rows& before, float* state, Activation activation, const Rows& y);

}  // namespace heed

#endif  // HEED_ENGINE_OPS_RECURRENCE_H_
