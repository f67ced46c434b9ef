// "encoder" with the key "input": an image as rows of patches, in raster order (Vision Transformer,
// Dosovitskiy et al. 2021), optionally in stages of ever fewer and wider rows (Swin Transformer, Liu et al.
// 2021).
//   input       {"kind": "patches", "image_size" (one side, or [height, width]), "patch_size", "channels",
//               "cls_token" (false): a learned row comes first, "patch_norm" (false): after the embedding}
//   layers      [{"attention", "ffn"}, ...], or
//   stages      [{"layers", "num_attention_heads", "intermediate_size"}, ...]: stage s has rows of
//               hidden_size 2^s numbers; before each but the first, 2 x 2 neighbours become one row, with
//               zeros beyond odd sides
//   positions   of all rows, the learned one's included; learned ones fix the image's size
//   reversible  (false) layers, no stages, of two streams that begin alike, as plain_stack.cc has them
// Without them images may be of any size, if patches divide their sides, but where "window_2d" has biases for
// windows that are cut short by image_size.
// Tensors: embed.patches.{weight, bias}, embed.norm.*, embed.cls, embed.positions.weight [rows, hidden_size],
//   layers.I.* or stages.S.layers.I.*, stages.S.merge.norm.* and stages.S.merge.reduction.weight, norm.*.
// Output: of the last stage's rows what the head makes of them.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/models/layers.h"
#include "engine/models/stack_recipe.h"

namespace heed {
namespace {

constexpr int64_t kMostNumbers = 1 << 16;  // of a patch, and of a row
constexpr int64_t kMostSide = 1 << 20;     // of an image, in pixels
constexpr int64_t kMostRows = 1 << 24;     // that an image of image_size has
constexpr int64_t kMostStages = 16;

struct StageConfig {
  std::vector<LayerConfig> layers;
  int num_heads = 1;
  int64_t intermediate_size = 0;
  std::string key, scope;  // of the layers in config.json; of its tensors, "" if it is no stage
};

struct ImageConfig {
  ImageInput image;
  bool cls = false, patch_norm = false;
  std::vector<StageConfig> stages;

  int64_t front() const { return cls ? 1 : 0; }
  int64_t patch_numbers() const { return image.channels * image.patch_size * image.patch_size; }
  ImageSize size() const { return {image.height / image.patch_size, image.width / image.patch_size}; }
  int64_t patches() const { return size().height * size().width; }
};

ImageSize Merged(ImageSize size, int64_t times = 1) {
  for (; times > 0; --times) size = {Quotient(size.height, 2), Quotient(size.width, 2)};
  return size;
}

// -------------------------------------------------------------------------------------------- rows of a
// stage

// Of the patches of a sequence, the size of its image; where it is not known, none.
ImageSize SizeOf(const ImageConfig& config, const ShareSize& share) {
  const int64_t columns = share.columns > 0 ? share.columns : config.image.fixed ? config.size().width : 0;
  return columns == 0 ? ImageSize{0, 0} : ImageSize{Quotient(share.rows, columns), columns};
}

// The most rows that images of so many in all have after merges: a line of them loses least.
int64_t MostMerged(int64_t rows, int64_t images, int times) {
  for (; times > 0; --times) rows = (rows + images) / 2;
  return rows;
}

// Of stage s.
RowCount CountOf(const ImageConfig& config, int s) {
  const auto exact = [config, s](const ShareSize& share) {
    const ImageSize size = Merged(SizeOf(config, share), s);
    return config.front() + (size.width > 0 ? size.height * size.width : MostMerged(share.rows, 1, s));
  };
  const auto most = [config, s](const ShareSize& sum, int64_t sequences) {
    if (!config.image.fixed) return config.front() * sequences + MostMerged(sum.rows, sequences, s);
    const ImageSize size = Merged(config.size(), s);
    return Quotient(sum.rows, config.patches()) * (config.front() + size.height * size.width);
  };
  return {exact, most};
}

// A row's 2 x 2 neighbours of the stage before, side by side: down first, then to the right.
class MergeNeighbours : public RowMove {
 public:
  void Run(const MovedFrom& from, int64_t first, Matrix<float> to) const override {
    CHECK_GT(from.columns, 0);
    const ImageSize size{from.rows.rows / from.columns, from.columns};
    CHECK_EQ(size.height * size.width, from.rows.rows);
    const int64_t across = Merged(size).width, width = from.rows.cols;
    for (int64_t r = 0; r < to.rows; ++r) {
      const int64_t top = 2 * ((first + r) / across), left = 2 * ((first + r) % across);
      for (int64_t i = 0; i < 4; ++i) {
        const int64_t line = top + i % 2, column = left + i / 2;
        float* part = to.row(r) + i * width;
        if (line < size.height && column < size.width)
          std::copy_n(from.rows.row(line * size.width + column), width, part);
        else
          std::fill_n(part, width, 0.0f);
      }
    }
  }
};

// Two streams beside each other, which begin alike.
class BothStreams : public RowMove {
 public:
  void Run(const MovedFrom& from, int64_t first, Matrix<float> to) const override {
    const int64_t width = from.rows.cols;
    CHECK_EQ(to.cols, 2 * width);
    for (int64_t r = 0; r < to.rows; ++r) {
      std::copy_n(from.rows.row(first + r), width, to.row(r));
      std::copy_n(from.rows.row(first + r), width, to.row(r) + width);
    }
  }
};

// ---------------------------------------------------------------------------------------------- the stack

class ImageStack : public StackRecipe {
 public:
  explicit ImageStack(ImageConfig config) : own_(std::move(config)) {}
  absl::StatusOr<LoadedStack> Load(const ModelConfig& config, const WeightScope& scope,
                                   Precision precision) const override {
    LoadedStack loaded;
    loaded.input = {.kind = InputRow::Kind::kPatch, .ids = 0, .numbers = own_.patch_numbers()};
    loaded.image = own_.image;
    for (int s = 0; s < std::ssize(own_.stages); ++s) {
      const LayerPlan plan = PlanOf(config, s, precision);
      int set = AddSet(plan, s, loaded.stack);
      const StageConfig& stage = own_.stages[s];
      const WeightScope tensors = stage.scope.empty() ? scope : scope / stage.scope;
      RETURN_IF_ERROR(s == 0 ? AddPatches(config, plan, scope, set, loaded)
                             : AddMerge(plan, tensors / "merge", set, loaded.stack));
      if (config.reversible) set = AddStreams(set, loaded.stack);
      RETURN_IF_ERROR(AddLayers(plan, stage.layers, &loaded.layers, tensors, set, loaded.stack));
    }
    ASSIGN_OR_RETURN(std::optional<Norm> norm, LoadLastNorm(config, loaded.stack.width(), scope));
    if (norm) loaded.stack.SetNorm(*std::move(norm));
    return loaded;
  }

 private:
  // Rows are a grid where nothing stands before them.
  LayerPlan PlanOf(const ModelConfig& config, int s, Precision precision) const {
    LayerPlan plan(config);
    plan.width = config.width << s;
    plan.num_heads = own_.stages[s].num_heads;
    plan.intermediate_size = own_.stages[s].intermediate_size;
    plan.key = own_.stages[s].key;
    plan.precision = precision;
    if (own_.cls) return plan;
    const ImageSize size = Merged(own_.size(), s);
    plan.image = ImageRows{size, own_.image.fixed};
    if (plan.grid.empty() && own_.image.fixed) plan.grid = {size.height, size.width};
    return plan;
  }

  int AddSet(const LayerPlan& plan, int s, Stack& stack) const {
    RowSet set{.count = CountOf(own_, s),
               .input = WorkInput::kNone,
               .width = plan.width,
               .inputs_width = s == 0 ? own_.patch_numbers() : 2 * plan.width};
    if (!own_.cls)
      set.columns = [own = own_, s](const ShareSize& share) { return Merged(SizeOf(own, share), s).width; };
    return stack.AddSet(std::move(set));
  }

  absl::Status AddPatches(const ModelConfig& config, const LayerPlan& plan, const WeightScope& scope, int set,
                          LoadedStack& loaded) const {
    Stack& stack = loaded.stack;
    const WeightScope embed = scope / "embed";
    stack.AddMove(set, Stack::kItself, std::make_unique<TakeNumbers>(own_.front()));
    ASSIGN_OR_RETURN(PackedWeights patches,
                     LoadWeights(embed, "patches", plan.width, own_.patch_numbers(), plan.precision));
    stack.Add(set, std::make_unique<ProjectStep>(std::move(patches), std::nullopt));
    if (own_.patch_norm) {
      ASSIGN_OR_RETURN(Norm norm, Norm::Load(embed / "norm", plan.width, plan.norm));
      stack.Add(set, std::make_unique<NormStep>(std::move(norm)));
    }
    if (own_.cls) {
      ASSIGN_OR_RETURN(Tensor cls, embed.Get("cls", {plan.width}));
      loaded.embedding_bytes += cls.size() * SizeOf(cls.dtype);
      cls.shape = {1, plan.width};
      stack.Add(set, std::make_unique<TableStep>(std::move(cls)));
    }
    ASSIGN_OR_RETURN(PositionTable positions,
                     PositionTable::Load(embed / "positions",
                                         {config.positions, plan.width, own_.front() + own_.patches()}));
    loaded.embedding_bytes += positions.bytes();
    if (config.positions != Positions::kNone)
      stack.Add(set, std::make_unique<PositionStep>(std::move(positions)));
    return absl::OkStatus();
  }

  // Gives their set.
  static int AddStreams(int embedded, Stack& stack) {
    RowSet set = stack.sets()[embedded];
    set.width *= 2;
    set.inputs_width = 0;
    const int streams = stack.AddSet(std::move(set));
    stack.AddMove(streams, embedded, std::make_unique<BothStreams>());
    return streams;
  }

  static absl::Status AddMerge(const LayerPlan& plan, const WeightScope& scope, int set, Stack& stack) {
    const int64_t joined = 2 * plan.width;
    stack.AddMove(set, set - 1, std::make_unique<MergeNeighbours>());
    ASSIGN_OR_RETURN(Norm norm, Norm::Load(scope / "norm", joined, plan.norm));
    ASSIGN_OR_RETURN(PackedWeights reduction,
                     LoadWeights(scope, "reduction", plan.width, joined, plan.precision));
    stack.Add(set, std::make_unique<ProjectStep>(std::move(reduction), std::move(norm)));
    return absl::OkStatus();
  }

  ImageConfig own_;
};

// ------------------------------------------------------------------------------------------ its keys

void ReadSize(JsonFields& fields, ImageInput& image) {
  if (fields.Raw("image_size").is_array()) {
    const std::vector<int64_t> sides = fields.Ints("image_size", 2, 2, 1, kMostSide);
    if (sides.size() == 2) image.height = sides[0], image.width = sides[1];
  } else {
    image.height = image.width = fields.RequiredInt("image_size", 1, kMostSide);
  }
  for (int64_t side : {image.height, image.width}) {
    if (side % image.patch_size != 0)
      fields.Fail(Cat("image_size: ", side, " is no multiple of patch_size ", image.patch_size));
  }
}

void ReadInput(JsonFields& fields, ImageConfig& config) {
  JsonFields own(fields.Raw("input"), fields.Name("input"));
  own.Choice("kind", {"patches"});
  ImageInput& image = config.image;
  image.channels = own.RequiredInt("channels", 1, kMostNumbers);
  image.patch_size = own.RequiredInt("patch_size", 1, kMostNumbers);
  ReadSize(own, image);
  if (image.patch_size > kMostNumbers / image.patch_size / image.channels)
    own.Fail(Cat("patch_size: ", image.patch_size, " squared in ", image.channels, " channels; at most ",
                 kMostNumbers, " numbers a patch can be served"));
  if (config.size().height > kMostRows / std::max<int64_t>(config.size().width, 1))
    own.Fail(Cat("image_size: ", image.height, " x ", image.width, " has more than ", kMostRows, " patches"));
  config.cls = own.Bool("cls_token", false);
  config.patch_norm = own.Bool("patch_norm", false);
  fields.Fail(own.Finish());
}

void ReadStages(JsonFields& fields, const ModelConfig& model, ImageConfig& config) {
  const Json& stages = fields.Raw("stages");
  if (!stages.is_array() || stages.empty() || std::ssize(stages) > kMostStages)
    return fields.Fail(Cat("stages is no list of 1 to ", kMostStages));
  if (model.width > kMostNumbers >> (std::ssize(stages) - 1))
    return fields.Fail(Cat("stages: rows of hidden_size ", model.width, " become wider than ", kMostNumbers,
                           " in ", std::ssize(stages), " stages"));
  for (int s = 0; s < std::ssize(stages); ++s) {
    JsonFields own(stages[s], Cat(fields.Name("stages"), "[", s, "]"));
    StageConfig& stage = config.stages.emplace_back();
    stage.key = Cat("stages[", s, "].layers");
    stage.scope = Cat("stages.", s);
    stage.num_heads = static_cast<int>(own.RequiredInt("num_attention_heads", 1, model.width << s));
    stage.intermediate_size = own.RequiredInt("intermediate_size", 1, 16 * kMostNumbers);
    stage.layers = ReadLayers(own, "layers", /*cross=*/false);
    fields.Fail(own.Finish());
  }
}

// Whether the layer has biases for windows that are smaller than it says, since the images are.
bool HasSmallWindows(const Json& attention, ImageSize size) {
  JsonFields fields(attention, "");
  return fields.String("type", "") == "window_2d" && fields.Bool("relative_bias", true) &&
         fields.Int("window", 1, 1, kMostSide) > std::min(size.height, size.width);
}

// What the layers say of the image.
void Check(JsonFields& fields, const ModelConfig& model, ImageConfig& config) {
  config.image.fixed = model.positions == Positions::kLearned;
  for (int s = 0; s < std::ssize(config.stages); ++s) {
    for (int i = 0; i < std::ssize(config.stages[s].layers); ++i) {
      const Json& attention = config.stages[s].layers[i].attention;
      if (!attention.is_object()) continue;
      if (config.cls && JsonFields(attention, "").String("type", "") == "window_2d")
        fields.Fail(Cat(config.stages[s].key, "[", i,
                        "].attention: 'window_2d' reads a grid of patches, and cls_token is none"));
      config.image.fixed |= HasSmallWindows(attention, Merged(config.size(), s));
    }
  }
  if (config.cls && config.stages.size() > 1)
    fields.Fail("input.cls_token: with stages, rows are patches alone");
}

std::shared_ptr<const StackRecipe> ReadImageStack(JsonFields& fields, ModelConfig& model) {
  ImageConfig config;
  ReadInput(fields, config);
  if (fields.Has("stages") == fields.Has("layers")) {
    fields.Fail("layers or stages: one of them says what an image goes through");
  } else if (fields.Has("stages")) {
    ReadStages(fields, model, config);
  } else {
    config.stages.push_back({.layers = ReadLayers(fields, "layers", /*cross=*/false),
                             .num_heads = model.num_heads,
                             .intermediate_size = model.intermediate_size,
                             .key = "layers"});
  }
  Check(fields, model, config);
  model.reversible = fields.Bool("reversible", false);
  if (model.reversible && (fields.Has("stages") || model.norm.placement != NormPlacement::kPre))
    fields.Fail("reversible: layers, not stages, with norm \"pre\"");
  if (config.image.fixed) {
    if (model.max_positions > 0 && model.max_positions < config.front() + config.patches())
      fields.Fail(Cat("max_position_embeddings: ", model.max_positions, " is below the ",
                      config.front() + config.patches(), " rows of an image"));
    model.max_positions = config.patches();
  }
  return std::make_shared<ImageStack>(std::move(config));
}

}  // namespace

std::shared_ptr<const StackRecipe> ReadPlainStack(JsonFields& fields, ModelConfig& config);

std::shared_ptr<const StackRecipe> ReadEncoderStack(JsonFields& fields, ModelConfig& config) {
  return fields.Has("input") ? ReadImageStack(fields, config) : ReadPlainStack(fields, config);
}

}  // namespace heed
