// "latent": multi-head latent attention (DeepSeek-AI 2024). What is remembered of a row is a latent c, of
// which all heads make their keys and values, and one part of a key that they share:
//   [k, c] = Wkv x, k turned, c = norm(c)        rope_dim and latent_dim numbers
//   [p, r] = Wq x, or Wq norm(Wa x); r turned    of each head key_dim and rope_dim numbers
//   score = scale (p . Wk c + r . k),  result = Wv (the sum of weights c)
// The products are absorbed: p . Wk c = (Wk' p) . c, so that a head's query is [r, Wk' p], all heads read the
// one key [k, c], as in multi-query attention, and Wv comes after the sum. Nothing of the size of all heads'
// keys exists, at the price of longer products with keys: right for decoding, where memory is what is read.
// [k, c] lies in the state twice, packed as a key and, not turned, as a value: 2 (rope_dim + latent_dim)
// numbers a token.
//   latent_dim, key_dim, value_dim, rope_dim (0: no part is shared)
//   query_latent_dim (0)       of norm(Wa x); 0: there is none
//   latent_eps (1e-6)          of the norms of latents
//   output_gate (false) | "head"   each head's result times the sigmoid of one more product
//   index (none) {heads, head_dim, top_k, layout "half" | "interleaved"}   which keys a row of a decoder
//                              meets: the top_k that an index of heads of head_dim numbers, of which rope
//                              turns the first rope_dim, scores highest (DeepSeek-V3.2, 2025;
//                              engine/attention/key_index.h). With query_latent_dim, without window
//   scale (1 / sqrt(key_dim + rope_dim)), window (none), rope, position_scale   as "softmax" has them; rope
//                              turns all of rope_dim
// Tensors: kv.{weight, bias} [rope_dim + latent_dim, hidden_size], kv_norm.weight [latent_dim], q.{weight,
// bias} [num_heads (key_dim + rope_dim), hidden_size or query_latent_dim], expand.weight [num_heads (key_dim
// + value_dim), latent_dim], of each head Wk, then Wv; with query_latent_dim q_latent.{weight, bias}
// [query_latent_dim, hidden_size] and q_norm.weight [query_latent_dim]; with output_gate gate.{weight, bias}
// [num_heads, hidden_size]; with index index_q.weight [heads head_dim, query_latent_dim], index_k.weight
// [head_dim, hidden_size], index_k_norm.{weight, bias} [head_dim], index_weights.weight [heads, hidden_size].
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "engine/attention/head_norm.h"
#include "engine/attention/key_index.h"
#include "engine/attention/pattern_attention.h"
#include "engine/attention/rope.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostLatent = 1024, kMostDim = 1024, kMostQueryLatent = 1 << 16;

struct Sizes {
  int64_t latent = 0, rope = 0, key = 0, value = 0, query_latent = 0;

  int64_t shared() const { return rope + latent; }  // what a row is remembered as
  int64_t query() const { return key + rope; }
};

Sizes ReadSizes(JsonFields& fields) {
  return {.latent = fields.RequiredInt("latent_dim", 1, kMostLatent),
          .rope = fields.Int("rope_dim", 0, 0, kMostDim),
          .key = fields.RequiredInt("key_dim", 1, kMostDim),
          .value = fields.RequiredInt("value_dim", 1, kMostDim),
          .query_latent = fields.Int("query_latent_dim", 0, 0, kMostQueryLatent)};
}

// Of each head [p, r] to [r, Wk' p]. `expand`: a head's Wk, then its Wv.
Tensor Absorbing(const Sizes& sizes, int heads, const std::vector<float>& expand) {
  const int64_t cols = sizes.query();
  Tensor made = ZeroMatrix(heads * sizes.shared(), cols);
  for (int64_t head = 0; head < heads; ++head) {
    const float* keys = &expand[head * (sizes.key + sizes.value) * sizes.latent];
    float* to = Writable(made) + head * sizes.shared() * cols;
    for (int64_t t = 0; t < sizes.rope; ++t) to[t * cols + sizes.key + t] = 1;
    for (int64_t c = 0; c < sizes.latent; ++c) {
      for (int64_t t = 0; t < sizes.key; ++t) to[(sizes.rope + c) * cols + t] = keys[t * sizes.latent + c];
    }
  }
  return made;
}

// Of each head the sum of weights [k, c] to Wv c.
Tensor Expanding(const Sizes& sizes, int heads, const std::vector<float>& expand) {
  Tensor made = ZeroMatrix(heads * sizes.value, sizes.shared());
  for (int64_t row = 0; row < heads * sizes.value; ++row) {
    const int64_t head = row / sizes.value,
                  from = head * (sizes.key + sizes.value) + sizes.key + row % sizes.value;
    std::copy_n(&expand[from * sizes.latent], sizes.latent,
                Writable(made) + row * sizes.shared() + sizes.rope);
  }
  return made;
}

class LatentAttention : public PatternAttention {
 public:
  LatentAttention(const AttentionSetting& setting, PatternOptions options, std::vector<Product> products,
                  Product result)
      : PatternAttention(setting, std::move(options), std::move(products)) {
    result_ = std::move(result);
  }
};

// The columns from `column` on, normed.
absl::Status NormColumns(const WeightScope& scope, int64_t column, int64_t count, float eps,
                         Product& product) {
  ASSIGN_OR_RETURN(HeadNorm norm, HeadNorm::Load(scope, {.columns = count}, {.eps = eps}));
  product.finish = [norm = std::move(norm), column, count](const Rows& results) {
    norm.Apply(results.Cols(column, count));
  };
  return absl::OkStatus();
}

// The products' numbers.
enum Which : int { kLatents, kQueries, kAbsorbed, kQueryLatents };

absl::StatusOr<std::vector<Product>> LoadLatentProducts(const AttentionSetting& setting, const Sizes& sizes,
                                                        float eps, const WeightScope& scope) {
  const int64_t queries = setting.num_heads * sizes.query(),
                read = sizes.query_latent > 0 ? sizes.query_latent : setting.width;
  std::vector<Product> products(2);
  ASSIGN_OR_RETURN(products[kLatents], LoadProduct(scope, "kv", sizes.shared(), setting.width));
  RETURN_IF_ERROR(NormColumns(scope / "kv_norm", sizes.rope, sizes.latent, eps, products[kLatents]));
  ASSIGN_OR_RETURN(products[kQueries], LoadProduct(scope, "q", queries, read));
  Product absorbed{.name = "absorbed"};
  absorbed.of = kQueries;
  absorbed.groups = setting.num_heads;
  products.push_back(std::move(absorbed));
  if (sizes.query_latent == 0) return products;
  ASSIGN_OR_RETURN(products.emplace_back(),
                   LoadProduct(scope, "q_latent", sizes.query_latent, setting.width));
  RETURN_IF_ERROR(NormColumns(scope / "q_norm", 0, sizes.query_latent, eps, products[kQueryLatents]));
  products[kQueries].of = kQueryLatents;
  return products;
}

// What heads' results are multiplied by.
absl::Status AddGate(const AttentionSetting& setting, const WeightScope& scope, PatternOptions& options,
                     std::vector<Product>& products) {
  options.gate = static_cast<int>(products.size());
  options.gating = PatternOptions::Gating::kHeads;
  ASSIGN_OR_RETURN(products.emplace_back(), LoadProduct(scope, "gate", setting.num_heads, setting.width));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewLatentAttention(const AttentionSetting& setting,
                                                              JsonFields& fields, const WeightScope& scope) {
  constexpr double kLeastScale = 1e-6, kMostScale = 1e6;
  const Sizes sizes = ReadSizes(fields);
  const auto eps = static_cast<float>(fields.Number("latent_eps", 1e-6, 0, 1));
  PatternOptions options{.heads = setting.num_heads, .key_value_heads = 1, .head_dim = sizes.shared()};
  options.scale =
      fields.Number("scale", 1 / std::sqrt(static_cast<double>(sizes.query())), kLeastScale, kMostScale);
  const int64_t window = fields.Int("window", 0, 0, kMostSpan);
  for (const char* key : {"rope", "position_scale", "index"}) fields.Raw(key);
  const Json& gate = fields.Raw("output_gate");
  const bool gated = gate == "head";
  if (!gated && !gate.is_null() && gate != false)
    fields.Fail(Cat("output_gate: ", Shown(gate), R"( is neither false nor "head")"));
  if (setting.cross) fields.Fail("latent attention is of a sequence's own rows");
  if (fields.Has("rope") && sizes.rope == 0) fields.Fail("rope: rope_dim is 0, so nothing is turned");
  if (fields.Has("index") && window > 0) fields.Fail("window: not with an index, which looks at all keys");
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(options.rotary, ReadRotary(fields, sizes.rope));
  ASSIGN_OR_RETURN(options.position_scale, ReadPositionScale(fields));
  const IndexedLatents latents{kQueryLatents, sizes.query_latent, sizes.rope};
  ASSIGN_OR_RETURN(std::optional<KeyIndex> index, ReadKeyIndex(fields, setting, latents));
  options.patterns = {std::make_shared<BandPattern>(
      window > 0 ? WindowBand(window, setting.causal) : Band{.right = setting.causal ? 0 : kUnlimited})};
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadLatentProducts(setting, sizes, eps, scope));
  const int64_t rows = setting.num_heads * (sizes.key + sizes.value);
  ASSIGN_OR_RETURN(const std::vector<float> expand, scope.Floats("expand.weight", {rows, sizes.latent}));
  products[kAbsorbed].weight = Absorbing(sizes, setting.num_heads, expand);
  Product result{.name = "expand", .weight = Expanding(sizes, setting.num_heads, expand)};
  result.groups = setting.num_heads;
  options.q = kAbsorbed;
  options.k = options.v = kLatents;
  if (gated) RETURN_IF_ERROR(AddGate(setting, scope, options, products));
  if (index) {
    RETURN_IF_ERROR(LoadKeyIndex(setting, latents, scope, products, *index));
    return std::make_unique<IndexedAttention>(setting, std::move(options), std::move(products),
                                              std::move(result), *std::move(index));
  }
  return std::make_unique<LatentAttention>(setting, std::move(options), std::move(products),
                                           std::move(result));
}

}  // namespace heed
