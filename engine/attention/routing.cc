// "routing": attention of the Routing Transformer (Roy et al. 2020): tokens meet in learned clusters. A head
// norms its queries and keys, t' = (t - mean(t)) / sqrt(variance(t) + 1e-6), and each of its centroids takes
// as members the `window` queries, and likewise the keys, with the largest centroid . t', of equal ones the
// earlier. Members attend members:
//   o_i = mean over the clusters that i is a query of: softmax(scale q'_i . k'_j) v_j over their keys j
// A query of no cluster gets zeros. In a decoder j <= i on top, and a cluster none of whose keys a query may
// see counts as if it were not in it. The first local_heads heads have windows instead (scale
// 1 / sqrt(head_dim), rows as they are).
// Options: clusters; window; shared_qk (true): keys are the normed queries; scale (1 / sqrt(head_dim));
//   local_heads (0), fewer than all; local_window, with local heads: in a decoder the newest tokens, itself
//   included, in an encoder half of it to either side; strict_causal (false; decoder only).
// Tensors: q, v; k [hidden_size, hidden_size] without shared_qk, with it [local_heads * head_dim,
//   hidden_size] if there are local heads; centroids [heads - local_heads, clusters, head_dim].
//
// In a decoder later tokens decide which earlier ones are members, though never what they say. A step cannot
// know them: its members are those of the tokens so far. strict_causal makes that the definition of the
// whole, and decoding exact.
//
// Work: n * clusters * head_dim to choose, clusters * window^2 to attend: with clusters and n / window near
// sqrt(n), n^1.5. State: keys and values of all tokens, and each cluster's members. For long texts in which
// what belongs together is far apart; up to `window` tokens it is full attention. With strict_causal a row
// gathers its keys alone: prompts cost more than without.
//
// Scores with centroids are f32 from queries and keys as the activation type has rounded them, whose
// products are not rounded to int8: another precision may choose other members, other company never does.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "engine/attention/pattern_attention.h"
#include "engine/attention/routed_attention.h"
#include "engine/attention/side_by_side.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostClusters = 1 << 12, kMostWindow = 1 << 16;
constexpr double kLeastScale = 1e-6, kMostScale = 1e6;
constexpr int kQ = RoutedAttention::kQ, kV = RoutedAttention::kV, kK = RoutedAttention::kK;

struct Options : RoutedOptions {
  int local_heads = 0;  // before those that route
  int64_t local_window = 0;
};

absl::StatusOr<Options> ReadOptions(const AttentionSetting& setting, JsonFields& fields) {
  Options options;
  options.head_dim = HeadDim(setting, fields);
  options.causal = setting.causal;
  options.clusters = fields.RequiredInt("clusters", 1, kMostClusters);
  options.window = fields.RequiredInt("window", 1, kMostWindow);
  options.shared = fields.Bool("shared_qk", true);
  options.scale =
      fields.Number("scale", 1 / std::sqrt(static_cast<double>(std::max<int64_t>(options.head_dim, 1))),
                    kLeastScale, kMostScale);
  options.local_heads = static_cast<int>(fields.Int("local_heads", 0, 0, setting.num_heads - 1));
  options.heads = setting.num_heads - options.local_heads;
  options.local_window = options.local_heads > 0
                             ? fields.RequiredInt("local_window", setting.causal ? 1 : 0, kMostSpan)
                             : fields.Int("local_window", 0, 0, kMostSpan);
  options.strict = fields.Bool("strict_causal", false);
  if (setting.cross) fields.Fail("members are tokens of one text: cross-attention joins two");
  if (!setting.causal && options.strict) fields.Fail("strict_causal: this attention is not causal");
  RETURN_IF_ERROR(fields.Finish());
  return options;
}

// Of the first heads: windows over rows as they are.
std::unique_ptr<Attention> NewLocalHeads(const AttentionSetting& setting, const Options& options) {
  PatternOptions local;
  local.heads = local.key_value_heads = options.local_heads;
  local.head_dim = options.head_dim;
  local.scale = 1 / std::sqrt(static_cast<double>(options.head_dim));
  local.patterns = {std::make_shared<BandPattern>(WindowBand(options.local_window, options.causal))};
  local.q = kQ;
  local.k = kK;
  local.v = kV;
  return std::make_unique<PatternAttention>(setting, std::move(local), std::vector<Product>());
}

std::unique_ptr<Attention> BesideLocalHeads(const AttentionSetting& setting, const Options& options,
                                            std::unique_ptr<Attention> routing,
                                            std::vector<Product> products) {
  const int64_t local = options.local_heads * options.head_dim, routed = setting.width - local;
  std::vector<HeadsOfAKind> kinds(2);
  kinds[0] = {NewLocalHeads(setting, options), {{kQ, 0, local}, {kV, 0, local}, {kK, 0, local}}};
  kinds[1] = {std::move(routing), {{kQ, local, routed}, {kV, local, routed}}};
  if (!options.shared) kinds[1].products.push_back({kK, local, routed});
  return std::make_unique<SideBySideAttention>(std::move(kinds), std::move(products));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewRoutingAttention(const AttentionSetting& setting,
                                                               JsonFields& fields, const WeightScope& scope) {
  ASSIGN_OR_RETURN(const Options options, ReadOptions(setting, fields));
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadProducts(scope, {"q", "v"}, setting));
  products[kQ].chooses = true;
  if (!options.shared || options.local_heads > 0) {
    const int64_t width = options.shared ? options.local_heads * options.head_dim : setting.width;
    ASSIGN_OR_RETURN(Product k, LoadProduct(scope, "k", width, setting.width));
    k.chooses = !options.shared;
    products.push_back(std::move(k));
  }
  ASSIGN_OR_RETURN(std::vector<float> centroids,
                   scope.Floats("centroids", {options.heads, options.clusters, options.head_dim}));
  if (options.local_heads == 0)
    return std::make_unique<RoutedAttention>(setting, options, std::move(products), centroids);
  auto routing = std::make_unique<RoutedAttention>(setting, options, std::vector<Product>(), centroids);
  return BesideLocalHeads(setting, options, std::move(routing), std::move(products));
}

}  // namespace heed
