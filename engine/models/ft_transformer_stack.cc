// "ft-transformer": FT-Transformer (Gorishniy et al. 2021). The tokens of a table's row, which attend alone:
// cls, then of each numerical column j x_j w_j + b_j, then of each categorical column value_j + b_j. Layers
// with their norms first, of which the first attention has none; the scores are classifier(relu(norm(cls))).
//   categories ([])     of each categorical column, how many values; ids 1 .. so many, 0 is missing
//   num_numerical (0)   numerical columns
//   columns (absent)    their names and values: table_schema.h
//   layers              [{"attention", "ffn"}, ...]
// Tensors: embed.cls [hidden_size], embed.numerical.{weight,bias} [num_numerical, hidden_size],
// embed.categorical.J.weight [categories[J] + 1, hidden_size], embed.categorical.bias [columns, hidden_size],
// layers.I.* without layers.0.norm1, norm.{weight,bias}, classifier.{weight,bias}.
// Output: num_labels scores for each row of the table.
#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/models/layers.h"
#include "engine/models/stack_recipe.h"
#include "engine/models/table_rows.h"

namespace heed {
namespace {

class FtTransformerStack : public StackRecipe {
 public:
  explicit FtTransformerStack(TableColumns columns) : columns_(std::move(columns)) {}

  absl::StatusOr<LoadedStack> Load(const ModelConfig& config, const WeightScope& scope,
                                   Precision precision) const override {
    LoadedStack loaded;
    columns_.Describe(loaded);
    ASSIGN_OR_RETURN(auto tokens, LoadTokens(config.width, scope / "embed"));
    auto embed = std::make_unique<TableTokens>(std::move(tokens));
    loaded.embedding_bytes = embed->bytes();
    const int64_t count = embed->count();
    Stack& stack = loaded.stack;
    const int set = stack.AddSet({.count = RowCount::OfEachInput(count),
                                  .input = WorkInput::kNone,
                                  .width = config.width,
                                  .group = count});
    stack.AddMove(set, Stack::kItself, std::move(embed));
    LayerPlan plan(config);
    plan.precision = precision;
    plan.first_unnormed = true;
    RETURN_IF_ERROR(AddLayers(plan, config.layers, &loaded.layers, scope, set, stack));
    const int cls = stack.AddSet({.input = WorkInput::kNone, .width = config.width});
    stack.AddMove(cls, set, std::make_unique<JoinRows>(count));
    ASSIGN_OR_RETURN(Norm norm, Norm::Load(scope / "norm", config.width, config.norm));
    stack.SetNorm(std::move(norm));
    loaded.head.reads = Activation::kRelu;
    return loaded;
  }

 private:
  absl::StatusOr<std::vector<TableToken>> LoadTokens(int64_t width, const WeightScope& embed) const {
    std::vector<TableToken> tokens(1);
    ASSIGN_OR_RETURN(tokens[0].base, embed.Floats("cls", {width}));
    if (columns_.num_numerical > 0) {
      const WeightScope numerical = embed / "numerical";
      ASSIGN_OR_RETURN(auto weight, LoadVectors(numerical, "weight", columns_.num_numerical, width));
      ASSIGN_OR_RETURN(auto bias, LoadVectors(numerical, "bias", columns_.num_numerical, width));
      for (int64_t j = 0; j < columns_.num_numerical; ++j)
        tokens.push_back({.base = std::move(bias[j]), .number = j, .factor = std::move(weight[j])});
    }
    if (columns_.categories.empty()) return tokens;
    ASSIGN_OR_RETURN(auto bias, LoadVectors(embed, "categorical.bias", columns_.num_categorical(), width));
    ASSIGN_OR_RETURN(auto categorical, LoadCategoricalTokens(columns_, embed, std::move(bias)));
    std::ranges::move(categorical, std::back_inserter(tokens));
    return tokens;
  }

  TableColumns columns_;
};

}  // namespace

std::shared_ptr<const StackRecipe> ReadFtTransformerStack(JsonFields& fields, ModelConfig& config) {
  TableColumns columns = ReadTableColumns(fields, config);
  if (config.norm.placement != NormPlacement::kPre) fields.Fail("norm: an ft-transformer's is \"pre\"");
  config.layers = ReadLayers(fields, "layers", /*cross=*/false);
  return std::make_shared<FtTransformerStack>(std::move(columns));
}

}  // namespace heed
