// "lsh": attention of the Reformer (Kitaev et al. 2020): a token reads the tokens that a hash puts beside it.
// s = x Wq is query and, at unit length, key, k = s / sqrt(mean(s^2) + 1e-6) / sqrt(head_dim):
//   score(i, j) = s_i . k_j
//   hash      bucket = argmax [s R; -s R], a round for each of num_hashes rotations R
//   sort      a round puts the tokens in order of (bucket, position), in chunks of chunk_length; those of a
//             chunk read their chunk, chunks_before before it and chunks_after after it. The rounds are one
//             circular list: the first chunk of a round has the last of the round before it as neighbour
//   merge     sum over rounds of softmax(z) o: o a round's result, z the log-sum-exp of its scores
// A token's score with itself is -1e5: it counts only where there is nothing else. At most chunk_length
// tokens need no hash: all read all.
// Options: chunk_length; num_hashes; num_buckets (even, or a list of even factors: an argmax each);
//   chunks_before (1); chunks_after (0; encoder only); strict_causal (false; decoder only); head_dim
//   (hidden_size / num_heads).
// Tensors: q, v; rotations [heads, head_dim, num_hashes, sum of the factors / 2].
//
// In a decoder the sorting lets later tokens decide which earlier ones meet, though never what they say. A
// step cannot know them: it reads the tokens of its bucket in order of arrival, cut into chunks, its own
// chunk and chunks_before before it. strict_causal makes that the definition of the whole, and decoding
// exact.
//
// Buckets are decided in f32 from s as the activation type has rounded it (its product is not rounded to
// int8): another precision may put a token elsewhere, other company never does.
#include <memory>
#include <utility>
#include <vector>

#include "engine/attention/hashed_attention.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostChunk = 1 << 12, kMostChunks = 64, kMostRounds = 64, kMostBuckets = 1 << 20;

std::vector<int64_t> ReadFactors(JsonFields& fields) {
  const Json& value = fields.Raw("num_buckets");
  const Json list = value.is_array() ? value : Json::array({value});
  std::vector<int64_t> factors;
  int64_t product = 1;
  for (const Json& factor : list) {
    const bool fits = factor.is_number_integer() && factor >= 2 && factor <= kMostBuckets / product;
    if (!fits || factor.get<int64_t>() % 2 != 0) {
      fields.Fail(Cat("num_buckets: ", Shown(value), " is no even number or list of even factors, at most ",
                      kMostBuckets, " in all"));
      return {2};
    }
    factors.push_back(factor);
    product *= factors.back();
  }
  if (factors.empty()) fields.Fail("num_buckets: [] has no factor");
  return factors;
}

absl::StatusOr<HashedOptions> ReadOptions(const AttentionSetting& setting, JsonFields& fields) {
  HashedOptions options;
  options.hash.heads = setting.num_heads;
  options.hash.head_dim = ReadHeadDim(setting, fields);
  options.causal = setting.causal;
  options.strict = fields.Bool("strict_causal", false);
  options.chunk = fields.RequiredInt("chunk_length", 1, kMostChunk);
  options.before = fields.Int("chunks_before", 1, 0, kMostChunks);
  options.after = fields.Int("chunks_after", 0, 0, kMostChunks);
  options.hash.rounds = fields.RequiredInt("num_hashes", 1, kMostRounds);
  options.hash.factors = ReadFactors(fields);
  if (setting.cross) fields.Fail("queries are keys here: cross-attention has others");
  if (setting.causal && options.after > 0) {
    fields.Fail(Cat("chunks_after: ", options.after, " chunks of later tokens in a decoder"));
  }
  if (!setting.causal && options.strict) fields.Fail("strict_causal: this attention is not causal");
  RETURN_IF_ERROR(fields.Finish());
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewLshAttention(const AttentionSetting& setting,
                                                           JsonFields& fields, const WeightScope& scope) {
  ASSIGN_OR_RETURN(HashedOptions options, ReadOptions(setting, fields));
  const BucketHash::Options& hash = options.hash;
  std::vector<Product> products;
  for (const char* name : {"q", "v"}) {
    ASSIGN_OR_RETURN(products.emplace_back(),
                     LoadProduct(scope, name, hash.heads * hash.head_dim, setting.width));
  }
  products[HashedAttention::kS].chooses = true;
  ASSIGN_OR_RETURN(std::vector<float> rotations,
                   scope.Floats("rotations", {hash.heads, hash.head_dim, hash.rounds, hash.directions()}));
  return std::make_unique<HashedAttention>(setting, std::move(options), std::move(products), rotations);
}

}  // namespace heed
