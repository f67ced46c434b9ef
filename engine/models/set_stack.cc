// "set-encoder": the Set Transformer (Lee et al. 2019), in the form of its code, on a set of vectors of
// numbers. Their order matters to no row but their own. With d = hidden_size, of all heads,
//   MAB(X, Y):  O = q(X) + softmax(q(X) k(Y)' / sqrt(d)) v(Y)
//               O = norm0(O);  O = O + relu(o(O));  O = norm1(O)
// where the residual is the projected query, and norms are there with layer_norm.
//   input_size            numbers of a vector
//   layer_norm (false)
//   blocks                [{"type", options}, ...], one after another:
//     "sab"   X = MAB(X, X)
//     "isab"  X = MAB(X, MAB(I, X)), I of num_inducing rows
//     "pma"   X = MAB(S, X), S of num_seeds rows; with feed_forward (false) MAB(S, relu(feed_forward(X)))
// Tensors: blocks.B.mab.{q, k, v, o} of "sab" and "pma", blocks.B.mab0.* (the inner one) and mab1.* of
// "isab", norm0 and norm1 beside them; blocks.B.inducing, blocks.B.seeds [rows, d]; blocks.B.feed_forward.
// What reads the vectors themselves is input_size wide. Output: of each row that the last block leaves its
// scores (head "classification") or itself ("none").
#include <cmath>
#include <map>
#include <utility>

#include "engine/base/status.h"
#include "engine/models/layers.h"
#include "engine/models/stack_recipe.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kMostNumbers = 1 << 16;  // of a vector
constexpr int64_t kMostBlocks = 1024;
constexpr int64_t kMostLearned = 1 << 20;  // rows that a block brings

struct Block {
  std::string type;
  int64_t learned = 0;  // rows that it brings
  bool feed_forward = false;
};

// relu(W x + b), in the place of x or added to it; of the residual stream, or of what rows begin with.
class ReluStep : public RowStep {
 public:
  struct Options {
    bool adds = false;
    bool of_inputs = false;
  };
  ReluStep(PackedWeights weights, const Options& options) : weights_(std::move(weights)), options_(options) {}

  void Run(RowBlock& block, const RowsBeside& beside) const override {
    const Matrix<float> x = options_.of_inputs ? beside.inputs.As<float>() : block.x;
    const Rows result = block.buffers.result.First(block.rows()).Cols(0, weights_.out());
    Linear(block, ForProduct(block, x, nullptr), weights_, {.out = result, .activation = Activation::kRelu});
    ForRows(block, [&](int64_t first, int64_t count) {
      const Rows from = result.Slice(first, count);
      const Matrix<float> to = x.Rows(first, count);
      options_.adds ? Add(from.As<const float>(), to) : Convert(from, AsRows(to));
    });
  }
  double multiply_adds() const override {
    return static_cast<double>(weights_.in()) * static_cast<double>(weights_.out());
  }
  int64_t reads() const override { return weights_.in(); }
  int64_t weight_bytes() const override { return weights_.bytes(); }

 private:
  PackedWeights weights_;
  Options options_;
};

// Makes the stack, block after block.
class Building {
 public:
  struct Options {
    int64_t input_size = 0;
    bool layer_norm = false;
    Precision precision = Precision::kF32;
  };
  Building(const ModelConfig& config, const Options& options)
      : config_(config), options_(options), norm_(config.norm) {
    loaded_.input = {.kind = InputRow::Kind::kVector, .ids = 0, .numbers = options.input_size};
    x_ = stack().AddSet(
        {.input = WorkInput::kNone, .width = config.width, .inputs_width = options.input_size});
    stack().AddMove(x_, Stack::kItself, std::make_unique<TakeNumbers>());
  }

  absl::Status Add(const Block& block, const WeightScope& scope) {
    where_ = Cat("config.json: blocks[", loaded_.layers, "]");
    if (block.type == "pma") RETURN_IF_ERROR(Pool(block, scope));
    if (block.type == "sab") RETURN_IF_ERROR(Meet(x_, Stack::kItself, scope / "mab"));
    if (block.type == "isab") RETURN_IF_ERROR(MeetThrough(block, scope));
    ++loaded_.layers;
    return absl::OkStatus();
  }

  LoadedStack Loaded() && {
    stack().SetAnswered(x_);
    return std::move(loaded_);
  }

 private:
  Stack& stack() { return loaded_.stack; }
  // Whether what a set's rows are is still the numbers of the request.
  bool IsInput(int set) const { return set == x_ && input_; }
  int64_t WidthOf(int set) const { return IsInput(set) ? options_.input_size : config_.width; }

  absl::Status MeetThrough(const Block& block, const WeightScope& scope) {
    const auto [found, added] = inducing_.try_emplace(block.learned, 0);
    if (added) found->second = AddLearned(block.learned);
    const int inducing = found->second;
    RETURN_IF_ERROR(Begin(inducing, block, "inducing", scope));
    RETURN_IF_ERROR(Meet(inducing, x_, scope / "mab0"));
    return Meet(x_, inducing, scope / "mab1");
  }

  absl::Status Pool(const Block& block, const WeightScope& scope) {
    if (block.feed_forward) {
      const int64_t width = WidthOf(x_);
      ASSIGN_OR_RETURN(PackedWeights weights,
                       LoadWeights(scope, "feed_forward", width, width, options_.precision));
      stack().Add(
          x_, std::make_unique<ReluStep>(std::move(weights), ReluStep::Options{.of_inputs = IsInput(x_)}));
    }
    const int seeds = AddLearned(block.learned);
    RETURN_IF_ERROR(Begin(seeds, block, "seeds", scope));
    RETURN_IF_ERROR(Meet(seeds, x_, scope / "mab"));
    x_ = seeds;
    input_ = false;
    return absl::OkStatus();
  }

  int AddLearned(int64_t rows) {
    return stack().AddSet(
        {.count = RowCount::Fixed(rows), .input = WorkInput::kNone, .width = config_.width});
  }

  // Rows of a table, which is the model's.
  absl::Status Begin(int set, const Block& block, const char* table, const WeightScope& scope) {
    ASSIGN_OR_RETURN(Tensor rows, scope.Get(table, {block.learned, config_.width}));
    loaded_.embedding_bytes += rows.size() * SizeOf(rows.dtype);
    stack().Add(set, std::make_unique<TableStep>(std::move(rows)));
    return absl::OkStatus();
  }

  // A set's rows become MAB(they, source).
  absl::Status Meet(int set, int source, const WeightScope& scope) {
    ASSIGN_OR_RETURN(AttentionSublayer sublayer, LoadMab(set, source, scope));
    if (source != Stack::kItself && IsInput(source)) sublayer.ReadInputsOfSource();
    stack().AddAttention({.set = set,
                          .source = source,
                          .layer = loaded_.layers,
                          .type = "softmax",
                          .sublayer = std::make_unique<AttentionSublayer>(std::move(sublayer))});
    if (set == x_) input_ = false;
    RETURN_IF_ERROR(AddNorm(set, scope / "norm0"));
    ASSIGN_OR_RETURN(PackedWeights o,
                     LoadWeights(scope, "o", config_.width, config_.width, options_.precision));
    stack().Add(set, std::make_unique<ReluStep>(std::move(o), ReluStep::Options{.adds = true}));
    return AddNorm(set, scope / "norm1");
  }

  absl::StatusOr<AttentionSublayer> LoadMab(int set, int source, const WeightScope& scope) {
    const bool cross = source != Stack::kItself;
    const AttentionSetting setting{.width = WidthOf(set),
                                   .num_heads = config_.num_heads,
                                   .cross = cross,
                                   .precision = options_.precision,
                                   .where = where_,
                                   .source_width = cross ? WidthOf(source) : 0};
    const Json options = {{"type", "softmax"},
                          {"head_dim", config_.width / config_.num_heads},
                          {"scale", 1 / std::sqrt(static_cast<double>(config_.width))}};
    JsonFields fields(options, where_);
    ASSIGN_OR_RETURN(std::unique_ptr<Attention> attention, NewAttention(setting, fields, scope));
    const ResidualOptions residual{.width = config_.width,
                                   .norm = {.placement = NormPlacement::kNone},
                                   .reads_inputs = IsInput(set),
                                   .of_queries = true};
    return AttentionSublayer::Load(std::move(attention), scope, scope, residual, options_.precision);
  }

  absl::Status AddNorm(int set, const WeightScope& scope) {
    if (!options_.layer_norm) return absl::OkStatus();
    ASSIGN_OR_RETURN(Norm norm, Norm::Load(scope, config_.width, norm_));
    stack().Add(set, std::make_unique<NormStep>(std::move(norm)));
    return absl::OkStatus();
  }

  const ModelConfig& config_;
  const Options options_;
  const NormOptions norm_;
  LoadedStack loaded_;
  int x_ = 0;                        // the set X
  bool input_ = true;                // X is what the request brings
  std::map<int64_t, int> inducing_;  // sets by how many rows they have; no two are at work at a time
  std::string where_;                // of the block, for errors
};

class SetStack : public StackRecipe {
 public:
  SetStack(int64_t input_size, bool layer_norm, std::vector<Block> blocks)
      : input_size_(input_size), layer_norm_(layer_norm), blocks_(std::move(blocks)) {}

  absl::StatusOr<LoadedStack> Load(const ModelConfig& config, const WeightScope& scope,
                                   Precision precision) const override {
    Building building(config, {input_size_, layer_norm_, precision});
    for (size_t i = 0; i < blocks_.size(); ++i)
      RETURN_IF_ERROR(building.Add(blocks_[i], scope / Cat("blocks.", i)));
    return std::move(building).Loaded();
  }

 private:
  int64_t input_size_;
  bool layer_norm_;
  std::vector<Block> blocks_;
};

Block ReadBlock(JsonFields& fields) {
  Block block;
  if (!fields.Has("type")) fields.Fail("type is missing");
  block.type = fields.Choice("type", {"sab", "isab", "pma"});
  if (block.type == "isab") block.learned = fields.RequiredInt("num_inducing", 1, kMostLearned);
  if (block.type != "pma") return block;
  block.learned = fields.RequiredInt("num_seeds", 1, kMostLearned);
  block.feed_forward = fields.Bool("feed_forward", false);
  return block;
}

std::vector<Block> ReadBlocks(JsonFields& fields) {
  std::vector<Block> blocks;
  const Json& list = fields.Raw("blocks");
  if (!list.is_array() || list.empty() || std::ssize(list) > kMostBlocks) {
    fields.Fail(Cat("blocks is no list of 1 to ", kMostBlocks, " blocks"));
    return blocks;
  }
  for (size_t i = 0; i < list.size(); ++i) {
    JsonFields own(list[i], Cat(fields.Name("blocks"), "[", i, "]"));
    blocks.push_back(ReadBlock(own));
    fields.Fail(own.Finish());
  }
  return blocks;
}

}  // namespace

std::shared_ptr<const StackRecipe> ReadSetStack(JsonFields& fields, ModelConfig& config) {
  const int64_t input_size = fields.RequiredInt("input_size", 1, kMostNumbers);
  const bool layer_norm = fields.Bool("layer_norm", false);
  if (config.num_heads > 0 && config.width % config.num_heads != 0)
    fields.Fail(Cat("hidden_size ", config.width, " is not divisible by ", config.num_heads, " heads"));
  if (config.positions != Positions::kNone) fields.Fail("positions: the vectors of a set have none");
  if (config.vocab_size > 0) fields.Fail("vocab_size: what is read is vectors, no tokens");
  if (config.residual_multiplier != 1)
    fields.Fail(Cat("residual_multiplier: ", config.residual_multiplier,
                    "; a set-encoder adds what it gives to its queries as it is"));
  config.class_pooling = Pooling::kNone;
  fields.Choice("head", {"none", "classification"});
  if (fields.Has("pooling")) fields.Fail("pooling: a block of type \"pma\" is what pools a set");
  return std::make_shared<SetStack>(input_size, layer_norm, ReadBlocks(fields));
}

}  // namespace heed
