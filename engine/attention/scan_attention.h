// Attention of which every head is a linear scan: what `linear` and `performer` are, with features of their
// own. Causal, a head's rows come one after another; an encoder and cross-attention attend to the sums over
// all rows.
#ifndef HEED_ENGINE_ATTENTION_SCAN_ATTENTION_H_
#define HEED_ENGINE_ATTENTION_SCAN_ATTENTION_H_

#include <memory>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/attention/linear_scan.h"

namespace heed {

// products: q, k, v, each [hidden_size, hidden_size]. constant_bytes: what the features keep in memory.
std::unique_ptr<Attention> NewScanAttention(const AttentionSetting& setting, LinearScan scan,
                                            std::vector<Product> products, int64_t constant_bytes);
// Those of the file.
absl::StatusOr<std::vector<Product>> LoadScanProducts(const AttentionSetting& setting,
                                                      const WeightScope& scope);

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_SCAN_ATTENTION_H_
