// "relative_memory": Transformer-XL (Dai et al. 2019). Segments of a text remember the ones before. Token i
// sees the `memory` newest, itself included, with the relative positions of relative_positions.h:
//   score(i, j) = ((q_i + u) . k_j + (q_i + v) . (Wr R_t)) / sqrt(head_dim),  t = min(i - j, clamp_length)
//   R_t = [sin(t f_0), ..., cos(t f_0), ...],  f_c = 10000^(-2c / width)
// Options: memory (with 0 a token sees nothing, and gets zeros); clamp_length (none, or 0); same_length
// (true, the only form: with it a token's result does not
//   depend on where segments end); null_memory (false): before the text stand `memory` rows that all have one
//   key and one value, as the authors' code has it, whose first segment remembers rows of zeros.
// Tensors: q, k, v, r; pos_bias_u, pos_bias_v [heads, head_dim]; null_k, null_v [heads, head_dim].
//
// The paper keeps the layer's inputs of the last segments; their keys and values give the same numbers for
// less work.
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/attention/relative_positions.h"
#include "engine/base/status.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kMostMemory = 1 << 16;

// The rows before the text are what all sequences see: of these a row sees those that its memory reaches.
class RelativeMemoryAttention : public RelativeAttention {
 public:
  RelativeMemoryAttention(const AttentionSetting& setting, PatternOptions options,
                          std::vector<Product> products, RelativePositions positions, int64_t memory)
      : RelativeAttention(setting, std::move(options), std::move(products), std::move(positions)),
        memory_(memory) {}
  void Prepare(const AttentionRows& rows, const Tile& tile, SoftmaxQueries& queries,
               std::vector<KeySource>& sources, std::vector<std::unique_ptr<ScoreBias>>& biases,
               Scratch& scratch) const override {
    RelativeAttention::Prepare(rows, tile, queries, sources, biases, scratch);
    if (sources.size() == 1) return;
    sources.back().sees = [memory = memory_](int64_t position) {
      return Range{std::min(position + 1, memory), memory};
    };
  }

 protected:
  std::function<int64_t(int64_t)> Places(int set) const override {
    if (set == 0) return {};
    return [memory = memory_](int64_t position) { return position + memory; };
  }

 private:
  int64_t memory_;
};

// So many rows of a head's key and value, packed.
absl::StatusOr<std::vector<KeyValuePages>> LoadNullMemory(const PatternOptions& options, int64_t memory,
                                                          DType type, const WeightScope& scope) {
  const int64_t dim = options.head_dim;
  ASSIGN_OR_RETURN(std::vector<float> key, scope.Floats("null_k", {options.heads, dim}));
  ASSIGN_OR_RETURN(std::vector<float> value, scope.Floats("null_v", {options.heads, dim}));
  Buffer both(2 * dim * SizeOf(type));
  const Rows k{type, both.as<char>(), 1, dim, dim}, v{type, k.at(0, dim), 1, dim, dim};
  std::vector<KeyValuePages> heads;
  for (int head = 0; head < options.heads; ++head) {
    Convert({DType::kF32, key.data() + head * dim, 1, dim, dim}, k);
    Convert({DType::kF32, value.data() + head * dim, 1, dim, dim}, v);
    KeyValuePages& pages = heads.emplace_back(type, dim);
    for (int64_t row = 0; row < memory; ++row) pages.Append(k, v);
  }
  return heads;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewRelativeMemoryAttention(const AttentionSetting& setting,
                                                                      JsonFields& fields,
                                                                      const WeightScope& scope) {
  PatternOptions options = PlainHeads(setting, fields);
  const int64_t memory = fields.RequiredInt("memory", 0, kMostMemory);
  const RelativeOptions relative =
      ReadRelativeOptions(setting, options, Cat("memory: ", memory), std::max<int64_t>(1, memory), fields);
  if (!fields.Bool("same_length", true)) {
    fields.Fail("same_length: false makes results depend on where segments end, which a service cannot know");
  }
  const bool null_memory = fields.Bool("null_memory", false) && memory > 0;
  RETURN_IF_ERROR(fields.Finish());
  options.patterns = {std::make_shared<BandPattern>(Band{.left = memory - 1, .right = 0})};
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadQueriesKeysValues(setting, options, scope));
  ASSIGN_OR_RETURN(RelativePositions positions, RelativePositions::Load(setting, options, relative, scope));
  if (null_memory) {
    ASSIGN_OR_RETURN(options.constant,
                     LoadNullMemory(options, memory, ActivationType(setting.precision), scope));
  }
  return std::make_unique<RelativeMemoryAttention>(setting, options, std::move(products),
                                                   std::move(positions), memory);
}

}  // namespace heed
