// "axial-decoder": Axial Transformers (Ho et al. 2019) as a whole: an image, pixel by pixel in raster order,
// channel after channel. The row at place p scores pixel p itself, from the pixels before it. What is read is
// a start row and then the pixels, so that the place of pixel i is i + 1.
//   e = embed.tokens[pixel],  p = embed.rows[row] + embed.columns[column] (+ cond)
//   outer:  u = e + p of whole image rows; row layers see all of their row, column layers what is above
//   inner:  x = e of the pixel to the left + u of the pixel above + p, zeros beyond the edges; row layers see
//           what is to the left. Then the norm, if it comes first, and the head
// Of several channels each is such an image, drawn with the same weights. What they have in common is cond,
// of the channels before it: at each pixel a k x k convolution, zeros around, of 2 planes for each channel
// (its ids / (vocab_size - 1) if it is drawn, else zeros; ones in the channel's own that is to be drawn),
// through
//   exterior:  conv + exterior.rows[row] + exterior.columns[column]; layers see their whole row or column
// Options: height, width, channels (1), outer_layers, inner_layers ("axis": "row") and, with channels,
//   exterior_layers, all with attention "axial"; head "lm", "token_classification" or "none". Lists may be
//   empty.
// Tensors: embed.{tokens, rows, columns}.weight, {outer, inner, exterior}.layers.I.*, norm.*,
//   exterior.{rows, columns}.weight, exterior.input.weight [hidden_size, 2 channels, k, k] and .bias.
// Decoding is exact. A pixel takes a row of the inner layers; the last of an image row also that row in the
// outer ones, of which keys and values of columns are remembered, and u of the last row is kept; a channel's
// first takes the exterior layers, and cond is kept.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "engine/models/layers.h"
#include "engine/models/stack_recipe.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 30;  // of all channels
constexpr int64_t kMostWidth = 1 << 16;            // of an image row, whose pixels are tracks of their own
constexpr int64_t kMostChannels = 1 << 10;
constexpr int64_t kMostNumbers = 1 << 16;  // that the convolution reads for a pixel

// The image, and what of it is finished when so many rows of the input were taken in: the start row and all
// pixels but the last of these.
struct Picture {
  int64_t height = 1, width = 1, channels = 1;

  int64_t pixels() const { return height * width; }  // of a channel
  int64_t all() const { return channels * pixels(); }
  // Pixels of a channel that the outer layers read: none is below its last row.
  int64_t above() const { return pixels() - width; }
  // Of the outer layers' rows.
  int64_t Finished(int64_t taken) const {
    const int64_t last = taken - 1;
    return taken == 0 ? 0 : last / pixels() * above() + last % pixels() / width * width;
  }
  int64_t Begun(int64_t taken) const { return (taken + pixels() - 1) / pixels(); }  // channels
};

// What a pass has more of than those before it.
RowCount Newly(std::function<int64_t(int64_t taken)> so_far, int64_t unit) {
  return {[=](const ShareSize& size) { return so_far(size.first + size.rows) - so_far(size.first); },
          // Of a unit one row of the input begins or ends it.
          [=](const ShareSize& sum, int64_t sequences) { return sum.rows + (unit - 1) * sequences; }};
}

struct Tables {
  int64_t width = 0;  // of a row
  Picture picture;
  Tensor tokens;
  std::vector<float> rows, columns;

  // to += of a pixel of a channel.
  void AddPlace(int64_t pixel, float* to) const {
    const float* row = &rows[pixel / picture.width * width];
    const float* column = &columns[pixel % picture.width * width];
    for (int64_t c = 0; c < width; ++c) to[c] += row[c] + column[c];
  }
};

// The pixel's id; it is among those taken in, in this pass or before.
int32_t IdOf(const MovedFrom& from, int64_t pixel) {
  const int64_t place = pixel + 1 - from.first;
  return place >= 0 ? from.ids[place] : from.ids_before[std::ssize(from.ids_before) + place];
}

// to += the row of the set that is read, counted from the beginning; `first` is the first of this pass.
void AddRow(const MovedFrom& from, int64_t row, int64_t first, const Matrix<float>& to) {
  const bool before = row < first;
  const Matrix<const float>& rows = before ? from.rows_before : from.rows;
  Add(rows.Rows(before ? rows.rows + row - first : row - first, 1), to);
}

// What cond is made of: at each pixel of a channel that begins, what the convolution reads.
class Surroundings : public RowMove {
 public:
  Surroundings(const Picture& picture, int64_t kernel, int64_t vocab_size)
      : picture_(picture), kernel_(kernel), scale_(1.0f / static_cast<float>(vocab_size - 1)) {}
  void Run(const MovedFrom& from, int64_t first, Matrix<float> to) const override {
    const int64_t begun = picture_.Begun(from.first);
    for (int64_t r = 0; r < to.rows; ++r) {
      const int64_t channel = begun + (first + r) / picture_.pixels();
      float* number = to.row(r);
      for (int64_t plane = 0; plane < 2 * picture_.channels; ++plane)
        number = Read(from, channel, plane, (first + r) % picture_.pixels(), number);
    }
  }

 private:
  float* Read(const MovedFrom& from, int64_t channel, int64_t plane, int64_t pixel, float* to) const {
    const int64_t top = pixel / picture_.width - kernel_ / 2, left = pixel % picture_.width - kernel_ / 2;
    for (int64_t i = 0; i < kernel_ * kernel_; ++i) {
      const int64_t y = top + i / kernel_, x = left + i % kernel_;
      const bool inside = y >= 0 && y < picture_.height && x >= 0 && x < picture_.width;
      *to++ = inside ? At(from, channel, plane, y * picture_.width + x) : 0.0f;
    }
    return to;
  }

  float At(const MovedFrom& from, int64_t channel, int64_t plane, int64_t pixel) const {
    if (plane < channel) return scale_ * static_cast<float>(IdOf(from, plane * picture_.pixels() + pixel));
    return plane == picture_.channels + channel ? 1.0f : 0.0f;
  }

  Picture picture_;
  int64_t kernel_;
  float scale_;  // of ids
};

// Adds the places of an image's rows, which are the set's groups.
class PlaceStep : public RowStep {
 public:
  explicit PlaceStep(Tables tables) : tables_(std::move(tables)) {}
  void Run(RowBlock& block, const RowsBeside& beside) const override {
    ForRows(block, [&](int64_t first, int64_t count) {
      for (int64_t r = first; r < first + count; ++r)
        tables_.AddPlace(beside.places.positions[r], block.x.row(r));
    });
  }

 private:
  Tables tables_;
};

// The outer layers' rows: e + p + cond.
class FinishedRows : public RowMove {
 public:
  explicit FinishedRows(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}
  void Run(const MovedFrom& from, int64_t first, Matrix<float> to) const override {
    const Picture& picture = tables_->picture;
    first += picture.Finished(from.first);
    for (int64_t r = 0; r < to.rows; ++r) {
      const int64_t channel = (first + r) / picture.above(), pixel = (first + r) % picture.above();
      const int64_t at = channel * picture.pixels() + pixel;
      ToFloats(tables_->tokens, IdOf(from, at) * to.cols, to.cols, to.row(r));
      tables_->AddPlace(pixel, to.row(r));
      if (picture.channels > 1) AddRow(from, at, picture.Begun(from.first) * picture.pixels(), to.Rows(r, 1));
    }
  }

 private:
  std::shared_ptr<const Tables> tables_;
};

// The inner layers' rows, but for what is above them: e of the left neighbour + p + cond.
class LeftNeighbours : public RowMove {
 public:
  explicit LeftNeighbours(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}
  void Run(const MovedFrom& from, int64_t first, Matrix<float> to) const override {
    const Picture& picture = tables_->picture;
    for (int64_t r = 0; r < to.rows; ++r) {
      const int64_t at = from.first + first + r;
      if (at % picture.width == 0)
        std::fill_n(to.row(r), to.cols, 0.0f);
      else
        ToFloats(tables_->tokens, from.ids[first + r] * to.cols, to.cols, to.row(r));
      tables_->AddPlace(at % picture.pixels(), to.row(r));
      if (picture.channels > 1) AddRow(from, at, picture.Begun(from.first) * picture.pixels(), to.Rows(r, 1));
    }
  }

 private:
  std::shared_ptr<const Tables> tables_;
};

// Adds to the inner layers' rows what the outer ones gave above them.
class AddAbove : public RowMove {
 public:
  explicit AddAbove(const Picture& picture) : picture_(picture) {}
  void Run(const MovedFrom& from, int64_t first, Matrix<float> to) const override {
    for (int64_t r = 0; r < to.rows; ++r) {
      const int64_t at = from.first + first + r, pixel = at % picture_.pixels();
      if (pixel < picture_.width) continue;
      const int64_t above = at / picture_.pixels() * picture_.above() + pixel - picture_.width;
      AddRow(from, above, picture_.Finished(from.first), to.Rows(r, 1));
    }
  }

 private:
  Picture picture_;
};

class AxialDecoderStack : public StackRecipe {
 public:
  Picture picture;
  std::vector<LayerConfig> exterior, outer, inner;

  absl::StatusOr<LoadedStack> Load(const ModelConfig& config, const WeightScope& scope,
                                   Precision precision) const override {
    if (config.pooling != Pooling::kNone || config.head == Head::kClassification)
      return Invalid("config.json: head: of an axial-decoder each pixel has an answer of its own: \"lm\", ",
                     "\"token_classification\" or \"none\" without pooling");
    LoadedStack loaded{.start_row = true, .channels = picture.channels, .max_tokens = picture.all()};
    LayerPlan plan(config);
    plan.precision = precision;
    auto tables = std::make_shared<Tables>();
    ASSIGN_OR_RETURN(*tables, LoadTables(config, scope / "embed"));
    ASSIGN_OR_RETURN(tables->tokens, scope.Get("embed.tokens.weight", {config.vocab_size, config.width}));
    loaded.tied = tables->tokens;
    loaded.embedding_bytes += tables->tokens.size() * SizeOf(tables->tokens.dtype) +
                              (picture.height + picture.width) * config.width * SizeOf(DType::kF32);
    int cond = Stack::kItself;
    if (picture.channels > 1) {
      ASSIGN_OR_RETURN(cond, AddExterior(config, plan, scope / "exterior", loaded));
      loaded.stack.KeepIds(picture.all());
    } else {
      loaded.stack.KeepIds(picture.width);
    }
    ASSIGN_OR_RETURN(const int finished, AddOuter(plan, scope / "outer", tables, cond, loaded));
    RETURN_IF_ERROR(AddInner(plan, scope / "inner", tables, cond, finished, loaded));
    ASSIGN_OR_RETURN(std::optional<Norm> norm, LoadLastNorm(config, config.width, scope));
    if (norm) loaded.stack.SetNorm(*std::move(norm));
    return loaded;
  }

 private:
  absl::StatusOr<Tables> LoadTables(const ModelConfig& config, const WeightScope& scope) const {
    Tables tables{.width = config.width, .picture = picture};
    ASSIGN_OR_RETURN(tables.rows, (scope / "rows").Floats("weight", {picture.height, config.width}));
    ASSIGN_OR_RETURN(tables.columns, (scope / "columns").Floats("weight", {picture.width, config.width}));
    return tables;
  }

  // Gives the set of cond.
  absl::StatusOr<int> AddExterior(const ModelConfig& config, LayerPlan plan, const WeightScope& scope,
                                  LoadedStack& loaded) const {
    ASSIGN_OR_RETURN(Tensor weight,
                     (scope / "input").Get("weight", {config.width, 2 * picture.channels, -1, -1}));
    const int64_t kernel = weight.dim(2), numbers = 2 * picture.channels * kernel * kernel;
    if (kernel % 2 == 0 || weight.dim(3) != kernel || numbers > kMostNumbers) {
      return Invalid((scope / "input").Path("weight"), ": ", ShapeText(weight.shape),
                     "; an odd square of at most ", kMostNumbers, " numbers in all planes is served");
    }
    weight.shape = {config.width, numbers};
    ASSIGN_OR_RETURN(const Tensor bias, (scope / "input").Get("bias", {config.width}));
    ASSIGN_OR_RETURN(Tables tables, LoadTables(config, scope));
    loaded.embedding_bytes += (picture.height + picture.width) * config.width * SizeOf(DType::kF32);
    const int64_t pixels = picture.pixels();
    const int set = loaded.stack.AddSet(
        {.count = Newly([p = picture](int64_t taken) { return p.Begun(taken) * p.pixels(); }, pixels),
         .input = WorkInput::kNone,
         .width = config.width,
         .inputs_width = numbers,
         .group = pixels,
         .kept = pixels});
    loaded.stack.AddMove(set, Stack::kItself,
                         std::make_unique<Surroundings>(picture, kernel, config.vocab_size));
    // Levels keep the digits that many of them need.
    loaded.stack.Add(
        set, std::make_unique<ProjectStep>(
                 PackedWeights::Pack({{weight, bias}}, PrecisionOfChoices(plan.precision)), std::nullopt));
    loaded.stack.Add(set, std::make_unique<PlaceStep>(std::move(tables)));
    plan.key = "exterior_layers";
    plan.grid = {picture.height, picture.width};
    RETURN_IF_ERROR(AddLayers(plan, exterior, &loaded.layers, scope, set, loaded.stack));
    return set;
  }

  // Gives their set. Of a channel its last row is not among them, and no column goes on in the next channel.
  absl::StatusOr<int> AddOuter(LayerPlan plan, const WeightScope& scope, std::shared_ptr<const Tables> tables,
                               int cond, LoadedStack& loaded) const {
    const int set = loaded.stack.AddSet(
        {.count = Newly([p = picture](int64_t taken) { return p.Finished(taken); }, picture.width),
         .input = WorkInput::kNone,
         .width = plan.width,
         .remembered = true,
         .kept = picture.width});
    loaded.stack.AddMove(set, cond, std::make_unique<FinishedRows>(std::move(tables)));
    plan.key = "outer_layers";
    for (int i = 0; i < std::ssize(outer); ++i) {
      LayerConfig layer = outer[i];
      plan.causal = layer.attention["axis"] == "column";
      plan.group = plan.causal ? 0 : picture.width;
      plan.grid = {1, picture.width};
      if (plan.causal) {
        layer.attention["axis"] = 1;
        layer.attention["shape"] = {picture.channels, std::max<int64_t>(picture.height - 1, 1),
                                    picture.width};
      }
      RETURN_IF_ERROR(
          AddLayer(plan, layer, i, loaded.layers++, scope / Cat("layers.", i), set, loaded.stack));
    }
    return set;
  }

  absl::Status AddInner(LayerPlan plan, const WeightScope& scope, std::shared_ptr<const Tables> tables,
                        int cond, int finished, LoadedStack& loaded) const {
    const int set = loaded.stack.AddSet({.width = plan.width, .remembered = true});
    loaded.stack.AddMove(set, cond, std::make_unique<LeftNeighbours>(std::move(tables)));
    loaded.stack.AddMove(set, finished, std::make_unique<AddAbove>(picture));
    plan.key = "inner_layers";
    plan.causal = true;
    plan.grid = {picture.channels * picture.height, picture.width};
    return AddLayers(plan, inner, &loaded.layers, scope, set, loaded.stack);
  }
};

// That an attention is along an axis of the image; its sizes, where it repeats them, are taken away.
void CheckAttention(const Picture& picture, bool row_only, std::string where, Json& options,
                    JsonFields& fields) {
  JsonFields own(options, std::move(where));
  for (const auto& [name, value] : options.items()) own.Ignore(name);  // the attention's own to check
  own.Choice("type", {"axial"});
  own.Choice("axis", row_only ? std::vector<std::string>{"row"} : std::vector<std::string>{"row", "column"});
  if (!own.Has("type")) own.Fail("type is missing");
  if (!own.Has("axis")) own.Fail("axis is missing");
  if (own.Has("shape")) own.Fail("shape: the sizes are the image's, height and width");
  for (const auto& [name, size] : {std::pair{"height", picture.height}, {"width", picture.width}}) {
    if (own.Int(name, size, 1, kMostPixels) != size)
      own.Fail(Cat(name, ": ", Shown(options[name]), "; the image's is ", size));
  }
  const absl::Status status = own.Finish();
  fields.Fail(status);
  if (!status.ok()) return;
  options.erase("height");
  options.erase("width");
}

std::vector<LayerConfig> ReadAxialLayers(const Picture& picture, const std::string& key, bool row_only,
                                         JsonFields& fields) {
  if (fields.Has(key) && fields.Raw(key) == Json::array()) return {};
  std::vector<LayerConfig> layers = ReadLayers(fields, key, /*cross=*/false);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].attention.is_object())
      CheckAttention(picture, row_only, Cat(fields.Name(key), "[", i, "].attention"), layers[i].attention,
                     fields);
  }
  return layers;
}

Picture ReadPicture(JsonFields& fields, ModelConfig& config) {
  Picture picture{.channels = fields.Int("channels", 1, 1, kMostChannels)};
  if (config.grid.size() != 2 || fields.Has("shape")) {
    fields.Fail("height and width: they are the image's sizes, and must be given; shape may not");
    return picture;
  }
  picture.height = config.grid[0];
  picture.width = config.grid[1];
  if (picture.width > kMostWidth) fields.Fail(Cat("width: ", picture.width, " is above ", kMostWidth));
  if (static_cast<double>(picture.height) * static_cast<double>(picture.width) *
          static_cast<double>(picture.channels) >
      kMostPixels) {
    fields.Fail(Cat("height, width, channels: ", picture.height, " x ", picture.width, " x ",
                    picture.channels, " pixels are more than ", kMostPixels));
    return Picture();
  }
  return picture;
}

}  // namespace

std::shared_ptr<const StackRecipe> ReadAxialDecoderStack(JsonFields& fields, ModelConfig& config) {
  auto recipe = std::make_shared<AxialDecoderStack>();
  if (config.vocab_size == 0) fields.Fail("vocab_size is missing");
  const Picture picture = recipe->picture = ReadPicture(fields, config);
  if (picture.channels > 1) {
    if (config.vocab_size == 1) fields.Fail("vocab_size: 1; of several channels there are at least 2 levels");
    recipe->exterior = ReadAxialLayers(picture, "exterior_layers", /*row_only=*/false, fields);
  }
  fields.Ignore("exterior_layers");
  recipe->outer = ReadAxialLayers(picture, "outer_layers", /*row_only=*/false, fields);
  recipe->inner = ReadAxialLayers(picture, "inner_layers", /*row_only=*/true, fields);
  fields.Ignore("layers");  // the reference reads none
  if (fields.Bool("reversible", false)) fields.Fail("reversible: not served for images");
  return recipe;
}

}  // namespace heed
