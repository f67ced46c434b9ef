// "funnel-encoder": the Funnel-Transformer (Dai et al. 2020). Positions are added to the embedding, or
// relative: attention "relative_segments". Blocks of layers, each on half as many rows as the one before. The
// first layer of every later block shortens: its residual and its queries are of the pooled rows y, its keys
// and values of all rows x that the block before has left,
//   norm "pre"  y + attention(norm1(y), norm1(x));  "post"  norm1(y + attention(y, x));
//   "res_post"  y + norm1(attention(y, x));  "sandwich"  y + norm1_post(attention(norm1(y), norm1(x))).
// Pooled are neighbours; a last odd row stays as it is. A pooled row stands where the first of its two stood,
// and has its type.
//   blocks               [{"layers": [{"attention", "ffn"}, ...]}, ...]; attention "full", "linear",
//                        "performer", "relative_segments", or "softmax" with nothing that compares positions
//   pool ("mean")        or "max", number by number
//   pool_keys (false)    the keys and values of a layer that shortens are of the pooled rows too
//   pooled_above (0)     so many rows or fewer are not pooled; 2 at most, and 1 without separate_cls
//   separate_cls (true)  the first row stays itself, and the pairs begin behind it
//   truncate (true)      with separate_cls the last row is dropped first, unless it is the first too, so that
//                        2^a rows become 2^(a - 1)
//   decoder_layers (none)  layers on as many rows as there are tokens: those of the last block repeated as
//                        often as they were halved (with separate_cls the first once), cut off or followed by
//                        zeros, and to each what block 0 gave
// Tensors: embed.*, blocks.B.layers.I.*, decoder.layers.I.*, norm.* (with norm "pre": after everything), and
// the head's. Output: as the head says, of the last block's rows, or with decoder_layers of the tokens'.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/models/layers.h"
#include "engine/models/stack_recipe.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kMostBlocks = 63;  // a row stands for 2^(blocks - 1) tokens, counted in 64 bits

// Options of "softmax" that compare positions, which pooled rows no longer have.
constexpr const char* kComparing[] = {"rope", "alibi", "relative_bias", "shaw", "window"};

// Which rows are pooled, and how.
struct Pooled {
  int64_t apart = 0;      // in front
  bool truncate = false;  // the last is dropped, unless it is apart
  int64_t above = 0;      // so many rows stay as they are
  bool largest = false;   // not the mean
  bool keys = false;      // of layers that shorten, too

  int64_t End(int64_t rows) const { return rows - (truncate && rows > apart ? 1 : 0); }
  int64_t Count(int64_t rows) const {
    if (rows <= above) return rows;
    return std::min(apart, rows) + (std::max<int64_t>(End(rows) - apart, 0) + 1) / 2;
  }
  // Of so many sequences with so many rows in all, at most. A sequence of n keeps ceil(n / 2), or 1 +
  // floor(n / 2) where one is apart and none is dropped, or where two are not pooled; and never more than n.
  int64_t Most(int64_t rows, int64_t sequences) const {
    return std::min(rows, (rows + ((apart > 0 && !truncate) || above > 1 ? 2 : 1) * sequences) / 2);
  }
  // The token where a row of a block stands.
  int64_t TokenOf(int64_t block, int64_t row) const {
    return row < apart ? row : apart + ((row - apart) << block);
  }
  // After the pooling before each of the blocks 1, ..., `block`.
  RowCount CountOf(int64_t block) const;
};

RowCount Pooled::CountOf(int64_t block) const {
  return {[pooled = *this, block](const ShareSize& size) {
            int64_t rows = size.rows;
            for (int64_t b = 0; b < block; ++b) rows = pooled.Count(rows);
            return rows;
          },
          [pooled = *this, block](const ShareSize& sum, int64_t sequences) {
            int64_t rows = sum.rows;
            for (int64_t b = 0; b < block; ++b) rows = pooled.Most(rows, sequences);
            return rows;
          }};
}

// The rows of a block, of those of the block before.
class PoolRows : public RowMove {
 public:
  explicit PoolRows(const Pooled& pooled) : pooled_(pooled) {}
  void Run(const MovedFrom& from, int64_t first, Matrix<float> to) const override {
    const int64_t end = pooled_.End(from.rows.rows);
    const bool stay = from.rows.rows <= pooled_.above;
    for (int64_t r = 0; r < to.rows; ++r) {
      const int64_t row = first + r, at = stay ? row : pooled_.TokenOf(1, row);
      const float *one = from.rows.row(at), *other = one;
      if (!stay && row >= pooled_.apart && at + 1 < end) other = from.rows.row(at + 1);
      for (int64_t c = 0; c < to.cols; ++c)
        to.row(r)[c] = pooled_.largest ? std::max(one[c], other[c]) : 0.5f * (one[c] + other[c]);
    }
  }

 private:
  Pooled pooled_;
};

// Adds to the tokens' rows those that stand for them, if there are any.
class AddRepeated : public RowMove {
 public:
  AddRepeated(int64_t apart, int64_t halvings) : apart_(apart), halvings_(halvings) {}
  void Run(const MovedFrom& from, int64_t first, Matrix<float> to) const override {
    for (int64_t r = 0; r < to.rows; ++r) {
      const int64_t token = first + r - apart_;
      const int64_t at = token < 0 ? first + r : apart_ + (token >> halvings_);
      if (at >= from.rows.rows) continue;
      Add(from.rows.Rows(at, 1), to.Rows(r, 1));
    }
  }

 private:
  int64_t apart_, halvings_;
};

bool IsSet(const Json& options, const char* name) {
  const auto option = options.find(name);
  return option != options.end() && !option->is_null() && *option != false && *option != 0;
}

// Whether a block may have such an attention.
absl::Status CheckAttention(const Json& options, std::string where) {
  JsonFields fields(options, std::move(where));
  for (const auto& [name, value] : options.items()) fields.Ignore(name);  // the attention's own to check
  fields.Choice("type", {"full", "linear", "performer", "softmax", "relative_segments"});
  for (const char* name : kComparing) {
    if (IsSet(options, name))
      fields.Fail(Cat(name, " compares positions, which rows that are pooled have no more"));
  }
  return fields.Finish();
}

class FunnelStack : public StackRecipe {
 public:
  struct Options {
    std::vector<std::vector<LayerConfig>> blocks;
    bool decodes = false;  // decoder_layers are given, if only an empty list
    Pooled pooled;
  };
  explicit FunnelStack(Options options) : options_(std::move(options)) {}

  absl::StatusOr<LoadedStack> Load(const ModelConfig& config, const WeightScope& scope,
                                   Precision precision) const override {
    LoadedStack loaded;
    LayerPlan plan(config);
    plan.precision = precision;
    const int tokens = loaded.stack.AddSet({.width = config.width, .typed = config.type_vocab_size > 0});
    ASSIGN_OR_RETURN(const Embedding embedding, AddEmbedding(config, plan, scope, tokens, loaded.stack));
    loaded.tied = embedding.tokens();
    loaded.embedding_bytes = embedding.bytes();
    int set = tokens;
    for (int64_t block = 0; block < std::ssize(options_.blocks); ++block) {
      if (block > 0) set = AddPooled(config, block, set, loaded.stack);
      RETURN_IF_ERROR(AddBlock(plan, block, scope, set, loaded));
    }
    if (options_.decodes) RETURN_IF_ERROR(AddDecoder(plan, config, scope, set, tokens, loaded));
    ASSIGN_OR_RETURN(std::optional<Norm> norm, LoadLastNorm(config, config.width, scope));
    if (norm) loaded.stack.SetNorm(*std::move(norm));
    return loaded;
  }

 private:
  // The rows with which a block begins.
  int AddPooled(const ModelConfig& config, int64_t block, int from, Stack& stack) const {
    const int set = stack.AddSet(
        {.count = options_.pooled.CountOf(block),
         .input = WorkInput::kNone,
         .width = config.width,
         .typed = config.type_vocab_size > 0,
         .typed_as = [pooled = options_.pooled, block](int64_t row) { return pooled.TokenOf(block, row); }});
    stack.AddMove(set, from, std::make_unique<PoolRows>(options_.pooled));
    return set;
  }

  absl::Status AddBlock(LayerPlan plan, int64_t block, const WeightScope& scope, int set,
                        LoadedStack& loaded) const {
    plan.key = Cat("blocks[", block, "].layers");
    plan.source = set - 1;
    plan.spacing = RowSpacing{.apart = options_.pooled.apart,
                              .step = int64_t{1} << block,
                              .source_step = int64_t{1} << std::max<int64_t>(block - 1, 0)};
    const std::vector<LayerConfig>& layers = options_.blocks[block];
    for (int i = 0; i < std::ssize(layers); ++i) {
      RETURN_IF_ERROR(
          CheckAttention(layers[i].attention, Cat("config.json: ", plan.key, "[", i, "].attention")));
      RETURN_IF_ERROR(AddLayer(plan, layers[i], i, loaded.layers++,
                               scope / Cat("blocks.", block, ".layers.", i), set, loaded.stack,
                               /*shortens=*/block > 0 && i == 0 && !options_.pooled.keys));
    }
    return absl::OkStatus();
  }

  absl::Status AddDecoder(LayerPlan plan, const ModelConfig& config, const WeightScope& scope, int from,
                          int tokens, LoadedStack& loaded) const {
    loaded.stack.AddMove(
        tokens, from, std::make_unique<AddRepeated>(options_.pooled.apart, std::ssize(options_.blocks) - 1));
    loaded.stack.SetAnswered(tokens);
    plan.key = "decoder_layers";
    plan.spacing = RowSpacing{.apart = options_.pooled.apart};
    return AddLayers(plan, config.decoder_layers, &loaded.layers, scope / "decoder", tokens, loaded.stack);
  }

  Options options_;
};

std::vector<std::vector<LayerConfig>> ReadBlocks(JsonFields& fields) {
  std::vector<std::vector<LayerConfig>> read;
  const Json& blocks = fields.Raw("blocks");
  if (!blocks.is_array() || blocks.empty() || std::ssize(blocks) > kMostBlocks) {
    fields.Fail(Cat("blocks: ", Shown(blocks), " is no list of 1 to ", kMostBlocks, " blocks"));
    return read;
  }
  for (int64_t i = 0; i < std::ssize(blocks); ++i) {
    JsonFields block(blocks[i], Cat(fields.Name("blocks"), "[", i, "]"));
    read.push_back(ReadLayers(block, "layers", /*cross=*/false));
    fields.Fail(block.Finish());
  }
  return read;
}

}  // namespace

std::shared_ptr<const StackRecipe> ReadFunnelStack(JsonFields& fields, ModelConfig& config) {
  FunnelStack::Options options;
  config.RequireTokens(fields);
  ReadEmbeddingTables(fields, config);
  ReadLastNorm(fields, config);
  options.blocks = ReadBlocks(fields);
  options.decodes = fields.Has("decoder_layers");
  if (const Json& layers = fields.Raw("decoder_layers"); options.decodes && layers != Json::array())
    config.decoder_layers = ReadLayers(fields, "decoder_layers", /*cross=*/false);
  const bool separate = fields.Bool("separate_cls", true), truncate = fields.Bool("truncate", true);
  options.pooled = {.apart = separate ? 1 : 0,
                    .truncate = separate && truncate,
                    .above = fields.Int("pooled_above", 0, 0, separate ? 2 : 1),
                    .largest = fields.Choice("pool", {"mean", "max"}) == "max",
                    .keys = fields.Bool("pool_keys", false)};
  return std::make_shared<FunnelStack>(std::move(options));
}

}  // namespace heed
