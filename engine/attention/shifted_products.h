// Products of rows mixed with the row before each, as RWKV has them (Peng et al. 2023):
//   W (m x_t + (1 - m) x_(t - 1)) = (W m) x_t + (W (1 - m)) x_(t - 1), zeros before the sequence
// Each is two products of the layer's input, of which the second's results are added a row later.
#ifndef HEED_ENGINE_ATTENTION_SHIFTED_PRODUCTS_H_
#define HEED_ENGINE_ATTENTION_SHIFTED_PRODUCTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/attention/attention.h"

namespace heed {

// Appends the two of NAME.weight [out, in] and mix_NAME [in], the shares m: NAME, and NAME_before.
absl::Status AddShiftedProducts(const WeightScope& scope, const std::string& name, int64_t out, int64_t in,
                                std::vector<Product>& products);

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_SHIFTED_PRODUCTS_H_
