// "saint": SAINT (Somepalli et al. 2021). The rows of a table that are given together are one input: what a
// row's scores are depends on the others, but not on their order. The tokens of a row: cls, then of each
// categorical column a row of its own table, then of each numerical column
//   down_j relu(up_j x_j + up_bias_j) + down_bias_j
// Layers along "columns" are of the tokens of each row alone; those along "rows" (intersample attention) of
// the table's rows, each the tokens of it side by side, cls first. The scores are a multilayer perceptron of
// each row's cls (norm "pre": of norm(cls)).
//   categories ([])     of each categorical column, how many values; ids 1 .. so many, 0 is missing
//   num_numerical (0)   numerical columns
//   columns (absent)    their names and values: table_schema.h
//   layers              [{"axis": "columns" | "rows", "attention", "ffn"}, ...]; along "rows" the
//                       attention is "full", or "softmax" without what compares positions
//   rows                sizes of layers along "rows": {"num_attention_heads", "intermediate_size"} (the
//                       model's)
//   mlp                 {"sizes": of the hidden layers, "act" ("relu" | "selu" | "gelu")}
// Tensors: embed.cls [hidden_size], embed.categorical.J.weight [categories[J] + 1, hidden_size],
// embed.numerical.up.{weight,bias} [num_numerical, m], embed.numerical.down.weight [num_numerical,
// hidden_size, m], embed.numerical.down.bias [num_numerical, hidden_size], layers.I.*, norm.*,
// mlp.I.{weight,bias}. Output: num_labels scores for each row of the table.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/models/layers.h"
#include "engine/models/perceptron.h"
#include "engine/models/stack_recipe.h"
#include "engine/models/table_rows.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

// The tokens of numerical columns, whose rows come with their number in front: down relu(up number + bias).
// A table's row has `tokens` rows, the last of which are these.
class NumbersStep : public RowStep {
 public:
  static absl::StatusOr<std::unique_ptr<NumbersStep>> Load(const WeightScope& scope, int64_t columns,
                                                           int64_t tokens, int64_t width,
                                                           Precision precision) {
    auto step = std::make_unique<NumbersStep>();
    step->tokens_ = tokens;
    ASSIGN_OR_RETURN(const Tensor up, (scope / "up").Get("weight", {columns, -1}));
    step->hidden_ = up.dim(1);
    if (step->hidden_ < 1)
      return Invalid((scope / "up").Path("weight"), ": ", ShapeText(up.shape), "; at least 1 wide is served");
    step->up_ = ToFloats(up);
    ASSIGN_OR_RETURN(step->up_bias_, (scope / "up").Floats("bias", {columns, step->hidden_}));
    ASSIGN_OR_RETURN(const Tensor down, (scope / "down").Get("weight", {columns, width, step->hidden_}));
    ASSIGN_OR_RETURN(const Tensor bias, (scope / "down").Get("bias", {columns, width}));
    for (int64_t j = 0; j < columns; ++j)
      step->down_.push_back(PackedWeights::Pack({{Of(down, j), Of(bias, j)}}, precision));
    return step;
  }

  void Run(RowBlock& block, const RowsBeside& beside) const override {
    Pieces shared(block.buffers.shared.as<void>());
    const Rows hidden = Hidden(shared, block.buffers.rows());
    const std::vector<Column> columns = Columns(block.rows(), beside.places.positions[0]);
    ForRows(block, [&](int64_t first, int64_t count) {
      for (int64_t j = 0; j < std::ssize(columns); ++j)
        Raise(block.x, {first, first + count}, j, columns[j], hidden);
    });
    for (int64_t j = 0; j < std::ssize(columns); ++j) {
      const Column& column = columns[j];
      if (column.count == 0) continue;
      const Rows out{DType::kF32, block.x.row(column.first), column.count, block.x.cols,
                     tokens_ * block.x.stride};
      LinearInTurn(block, j, {hidden.Slice(column.hidden, column.count)}, down_[j], {.out = out});
    }
    block.team.Barrier();
  }

  double multiply_adds() const override {
    const double column = static_cast<double>(hidden_) * static_cast<double>(down_[0].out() + 1);
    return column * static_cast<double>(down_.size()) / static_cast<double>(tokens_);
  }
  int64_t SharedBytes(int64_t rows) const override {
    Pieces counted;
    Hidden(counted, rows);
    return counted.bytes();
  }
  int64_t weight_bytes() const override {
    int64_t sum = 0;
    for (const PackedWeights& down : down_) sum += down.bytes();
    return sum;
  }

 private:
  // The rows of a column in a block: first, first + tokens_, ...
  struct Column {
    int64_t first = 0, count = 0;
    int64_t hidden = 0;  // the first one's place among the hidden rows, which lie column after column
  };

  // The j-th of what lies one after another.
  static Tensor Of(const Tensor& all, int64_t j) {
    Tensor one{all.dtype, {all.shape.begin() + 1, all.shape.end()}, all.data, all.memory};
    one.data = static_cast<const char*>(all.data) + j * one.size() * SizeOf(one.dtype);
    return one;
  }

  Rows Hidden(Pieces& pieces, int64_t rows) const {
    return pieces.TakeRows(rows, hidden_, ActivationType(down_[0].precision()));
  }

  // Of a block that begins with the `position`-th token of a row.
  std::vector<Column> Columns(int64_t rows, int64_t position) const {
    std::vector<Column> columns(down_.size());
    const int64_t before = tokens_ - std::ssize(down_);
    int64_t hidden = 0;
    for (int64_t j = 0; j < std::ssize(columns); ++j) {
      const int64_t first = (before + j - position + tokens_) % tokens_;
      columns[j] = {first, first < rows ? (rows - first - 1) / tokens_ + 1 : 0, hidden};
      hidden += columns[j].count;
    }
    return columns;
  }

  // relu(up x + bias) of those of the j-th column's rows that are within a range of the block's.
  void Raise(const Matrix<float>& x, Range range, int64_t j, const Column& column, const Rows& hidden) const {
    std::vector<float> row(hidden_);
    const int64_t before = std::max<int64_t>(range.begin - column.first + tokens_ - 1, 0) / tokens_;
    for (int64_t i = before; i < column.count; ++i) {
      const int64_t r = column.first + i * tokens_;
      if (r >= range.end) return;
      for (int64_t c = 0; c < hidden_; ++c)
        row[c] = std::max(up_[j * hidden_ + c] * x.row(r)[0] + up_bias_[j * hidden_ + c], 0.0f);
      Convert({DType::kF32, row.data(), 1, hidden_, hidden_}, hidden.Slice(column.hidden + i, 1));
    }
  }

  int64_t tokens_ = 0, hidden_ = 0;
  std::vector<float> up_, up_bias_;  // [columns, hidden]
  std::vector<PackedWeights> down_;  // of each column
};

class SaintStack : public StackRecipe {
 public:
  TableColumns columns;
  int rows_heads = 0;
  int64_t rows_intermediate_size = 0;
  Perceptron mlp;

  int64_t tokens() const { return 1 + columns.num_categorical() + columns.num_numerical; }

  absl::StatusOr<LoadedStack> Load(const ModelConfig& config, const WeightScope& scope,
                                   Precision precision) const override {
    LoadedStack loaded;
    columns.Describe(loaded);
    Stack& stack = loaded.stack;
    const int alone = stack.AddSet({.count = RowCount::OfEachInput(tokens()),
                                    .input = WorkInput::kNone,
                                    .width = config.width,
                                    .group = tokens()});
    RETURN_IF_ERROR(AddTokens(config, scope / "embed", precision, alone, loaded));
    ASSIGN_OR_RETURN(const int last, AddAllLayers(config, scope, precision, alone, loaded));
    const int cls = stack.AddSet({.input = WorkInput::kNone, .width = config.width});
    stack.AddMove(cls, last, std::make_unique<JoinRows>(last == alone ? tokens() : 1));
    ASSIGN_OR_RETURN(std::optional<Norm> norm, LoadLastNorm(config, config.width, scope));
    if (norm) stack.SetNorm(*std::move(norm));
    ASSIGN_OR_RETURN(loaded.head, LoadPerceptron(mlp, config.width, config.num_labels, scope, precision));
    return loaded;
  }

 private:
  absl::Status AddTokens(const ModelConfig& config, const WeightScope& embed, Precision precision, int set,
                         LoadedStack& loaded) const {
    std::vector<TableToken> all(1);
    ASSIGN_OR_RETURN(all[0].base, embed.Floats("cls", {config.width}));
    const std::vector<float> zeros(config.width);
    std::vector<std::vector<float>> bases(columns.num_categorical(), zeros);
    ASSIGN_OR_RETURN(auto categorical, LoadCategoricalTokens(columns, embed, std::move(bases)));
    std::ranges::move(categorical, std::back_inserter(all));
    std::vector<float> in_front = zeros;
    in_front[0] = 1;
    for (int64_t j = 0; j < columns.num_numerical; ++j)
      all.push_back({.base = zeros, .number = j, .factor = in_front});
    auto move = std::make_unique<TableTokens>(std::move(all));
    loaded.embedding_bytes = move->bytes();
    loaded.stack.AddMove(set, Stack::kItself, std::move(move));
    if (columns.num_numerical == 0) return absl::OkStatus();
    // What a number becomes keeps the digits that a row of a table has.
    ASSIGN_OR_RETURN(auto step, NumbersStep::Load(embed / "numerical", columns.num_numerical, tokens(),
                                                  config.width, PrecisionOfChoices(precision)));
    loaded.stack.Add(set, std::move(step));
    return absl::OkStatus();
  }

  // Gives the set that the last of them leaves the rows in.
  absl::StatusOr<int> AddAllLayers(const ModelConfig& config, const WeightScope& scope, Precision precision,
                                   int alone, LoadedStack& loaded) const {
    LayerPlan along_columns(config);
    along_columns.precision = precision;
    LayerPlan along_rows = along_columns;
    along_rows.width = tokens() * config.width;
    along_rows.num_heads = rows_heads;
    along_rows.intermediate_size = rows_intermediate_size;
    int wide = -1, at = alone;
    for (int i = 0; i < std::ssize(config.layers); ++i) {
      const bool rows = config.layers[i].axis == "rows";
      if (rows && wide < 0)
        wide = loaded.stack.AddSet({.input = WorkInput::kNone, .width = along_rows.width});
      at = Go(at, rows ? wide : alone, alone, loaded.stack);
      RETURN_IF_ERROR(AddLayer(rows ? along_rows : along_columns, config.layers[i], i, loaded.layers++,
                               scope / Cat("layers.", i), at, loaded.stack));
    }
    return at;
  }

  // The rows from one set to the other, if they are not there.
  int Go(int from, int to, int alone, Stack& stack) const {
    if (from == to) return to;
    if (to == alone)
      stack.AddMove(to, from, std::make_unique<SplitRows>(tokens()));
    else
      stack.AddMove(to, from, std::make_unique<JoinRows>(tokens()));
    return to;
  }
};

// Rows of a table have no positions.
void CheckAlongRows(const Json& attention, const std::string& where, JsonFields& fields) {
  const std::string type =
      attention.value("type", Json()).is_string() ? attention["type"].get<std::string>() : "";
  if (type != "full" && type != "softmax")
    fields.Fail(Cat(where, ".type: ", Shown(type), "; along \"rows\" \"full\" and \"softmax\" are served"));
  for (const char* key : {"rope", "alibi", "relative_bias", "shaw", "window"}) {
    const Json option = attention.value(key, Json());
    if (!option.is_null() && option != false)
      fields.Fail(Cat(where, ".", key, ": compares positions, and rows of a table have none"));
  }
}

}  // namespace

std::shared_ptr<const StackRecipe> ReadSaintStack(JsonFields& fields, ModelConfig& config) {
  auto recipe = std::make_shared<SaintStack>();
  recipe->columns = ReadTableColumns(fields, config);
  recipe->mlp = ReadPerceptron(fields);
  const int64_t wide = CheckJoinedWidth(recipe->tokens(), 0, fields, config);
  config.layers = ReadLayers(fields, "layers", /*cross=*/false, {"columns", "rows"});
  for (size_t i = 0; i < config.layers.size(); ++i) {
    if (config.layers[i].axis == "rows" && config.layers[i].attention.is_object())
      CheckAlongRows(config.layers[i].attention, Cat("layers[", i, "].attention"), fields);
  }
  const Json sizes = fields.Has("rows") ? fields.Raw("rows") : Json::object();
  fields.Ignore("rows");
  JsonFields rows(sizes, fields.Name("rows"));
  recipe->rows_heads = static_cast<int>(rows.Int("num_attention_heads", config.num_heads, 1, wide));
  recipe->rows_intermediate_size =
      rows.Int("intermediate_size", config.intermediate_size, 1, int64_t{1} << 20);
  fields.Fail(rows.Finish());
  return recipe;
}

}  // namespace heed
