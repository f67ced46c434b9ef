// "tab-transformer": TabTransformer (Huang et al. 2020). Each categorical column of a table's row is a token;
// the tokens of a row attend alone, and no layer sees positions. What the layers give for them, column after
// column, and the layer-normalised numbers are joined and go through a multilayer perceptron. No final norm.
//   categories ([])               of each categorical column, how many values; ids 1 .. so many, 0 is missing
//   num_numerical (0)             numerical columns
//   columns (absent)              their names and values: table_schema.h
//   layers                        [{"attention", "ffn"}, ...]; unread without categorical columns
//   column_embedding ("concat")   token = [column vector; value vector]; "add": their sum; "none": the value
//   column_size (hidden_size / 8) of the column vector, with "concat"
//   mlp                           {"sizes": of the hidden layers, "act" ("relu" | "selu" | "gelu")}
// Tensors: embed.categorical.J.weight [categories[J] + 1, hidden_size, less column_size with "concat"],
// embed.columns.weight [columns, column_size or hidden_size], layers.I.*, numerical_norm.{weight,bias},
// mlp.I.{weight,bias}. Output: num_labels scores for each row of the table.
#include <memory>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/models/layers.h"
#include "engine/models/perceptron.h"
#include "engine/models/stack_recipe.h"
#include "engine/models/table_rows.h"

namespace heed {
namespace {

class TabTransformerStack : public StackRecipe {
 public:
  TableColumns columns;
  std::string column_embedding;
  int64_t column_size = 0;
  Perceptron mlp;
  int64_t joined_width = 0;

  absl::StatusOr<LoadedStack> Load(const ModelConfig& config, const WeightScope& scope,
                                   Precision precision) const override {
    LoadedStack loaded;
    columns.Describe(loaded);
    int tokens = Stack::kItself;
    if (!columns.categories.empty()) {
      ASSIGN_OR_RETURN(tokens, AddTokens(config, scope, precision, loaded));
    }
    Stack& stack = loaded.stack;
    const int joined = stack.AddSet({.input = WorkInput::kNone, .width = joined_width});
    stack.AddMove(joined, tokens, std::make_unique<JoinRows>(columns.num_categorical()));
    if (columns.num_numerical > 0) {
      ASSIGN_OR_RETURN(Norm norm,
                       Norm::Load(scope / "numerical_norm", columns.num_numerical, {.eps = config.norm.eps}));
      stack.Add(joined, std::make_unique<NormStep>(std::move(norm), joined_width - columns.num_numerical));
    }
    ASSIGN_OR_RETURN(loaded.head, LoadPerceptron(mlp, joined_width, config.num_labels, scope, precision));
    return loaded;
  }

 private:
  // A set of the categorical columns' tokens, and the layers that they pass; gives its number.
  absl::StatusOr<int> AddTokens(const ModelConfig& config, const WeightScope& scope, Precision precision,
                                LoadedStack& loaded) const {
    const int64_t count = columns.num_categorical();
    const int set = loaded.stack.AddSet({.count = RowCount::OfEachInput(count),
                                         .input = WorkInput::kNone,
                                         .width = config.width,
                                         .group = count});
    ASSIGN_OR_RETURN(auto base, ColumnVectors(config, scope / "embed"));
    ASSIGN_OR_RETURN(auto tokens, LoadCategoricalTokens(columns, scope / "embed", std::move(base),
                                                        column_embedding == "concat" ? column_size : 0));
    auto embed = std::make_unique<TableTokens>(std::move(tokens));
    loaded.embedding_bytes = embed->bytes();
    loaded.stack.AddMove(set, Stack::kItself, std::move(embed));
    LayerPlan plan(config);
    plan.precision = precision;
    RETURN_IF_ERROR(AddLayers(plan, config.layers, &loaded.layers, scope, set, loaded.stack));
    return set;
  }

  // Of each categorical column, as wide as a token: zeros where the value stands alone.
  absl::StatusOr<std::vector<std::vector<float>>> ColumnVectors(const ModelConfig& config,
                                                                const WeightScope& embed) const {
    const int64_t count = columns.num_categorical();
    if (column_embedding == "none")
      return std::vector<std::vector<float>>(count, std::vector<float>(config.width));
    const int64_t width = column_embedding == "concat" ? column_size : config.width;
    ASSIGN_OR_RETURN(auto vectors, LoadVectors(embed, "columns.weight", count, width));
    for (std::vector<float>& vector : vectors) vector.resize(config.width);
    return vectors;
  }
};

}  // namespace

std::shared_ptr<const StackRecipe> ReadTabTransformerStack(JsonFields& fields, ModelConfig& config) {
  auto recipe = std::make_shared<TabTransformerStack>();
  recipe->columns = ReadTableColumns(fields, config);
  const int64_t count = recipe->columns.num_categorical();
  recipe->column_embedding = fields.Choice("column_embedding", {"concat", "add", "none"});
  recipe->column_size = fields.Int("column_size", config.width / 8, 1, config.width);
  if (recipe->column_embedding == "concat" && count > 0 &&
      (recipe->column_size < 1 || recipe->column_size >= config.width)) {
    fields.Fail(Cat("column_size: ", recipe->column_size, " leaves the value no room or has none; 1 .. ",
                    config.width - 1, " of hidden_size ", config.width, " can be served"));
  }
  recipe->mlp = ReadPerceptron(fields);
  recipe->joined_width = CheckJoinedWidth(count, recipe->columns.num_numerical, fields, config);
  if (count > 0) config.layers = ReadLayers(fields, "layers", /*cross=*/false);
  fields.Ignore("layers");
  return recipe;
}

}  // namespace heed
