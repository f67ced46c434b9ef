// "swin" (Liu et al. 2021): pre-norm layers over the patches of an image of any size, in windows of which
// every second layer's are shifted; stages of ever fewer and wider rows.
//   ImageClassification  classifier, of the mean of the rows
//   Model                the rows as they are
#include <vector>

#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr double kEps = 1e-5;  // of the norms of patches and of merges, whatever layer_norm_eps says
constexpr int64_t kMostStages = 16;

std::vector<int64_t> Each(JsonFields& fields, std::string_view key, const std::vector<int64_t>& fallback) {
  const std::vector<int64_t> given = fields.Ints(key, 1, kMostStages, 1, kMostLayers);
  return given.empty() ? fallback : given;
}

struct Shape {
  int64_t width = 1;                   // of the first stage
  std::vector<int64_t> depths, heads;  // of each stage
  double mlp_ratio = 4;
  int64_t window = 1;

  int64_t Width(size_t stage) const { return width << stage; }
};

Shape ReadShape(JsonFields& fields) {
  Shape shape{.width = Size(fields, "embed_dim", 96),
              .depths = Each(fields, "depths", {2, 2, 6, 2}),
              .heads = Each(fields, "num_heads", {3, 6, 12, 24}),
              .mlp_ratio = fields.Number("mlp_ratio", 4, 1e-3, 1e3),
              .window = Size(fields, "window_size", 7)};
  if (shape.depths.size() != shape.heads.size())
    fields.Fail(
        Cat("num_heads: of ", shape.heads.size(), " stages, where depths are of ", shape.depths.size()));
  shape.heads.resize(shape.depths.size(), 1);
  return shape;
}

Json StageOf(const Shape& shape, size_t stage) {
  Json layers = Json::array();
  for (int64_t i = 0; i < shape.depths[stage]; ++i) {
    const int64_t shift = i % 2 == 0 ? 0 : shape.window / 2;
    layers.push_back({{"attention", {{"type", "window_2d"}, {"window", shape.window}, {"shift", shift}}}});
  }
  const double hidden = shape.mlp_ratio * static_cast<double>(shape.Width(stage));
  return {{"num_attention_heads", shape.heads[stage]},
          {"intermediate_size", static_cast<int64_t>(hidden)},
          {"layers", layers}};
}

void AddLayer(const std::string& of, const std::string& to, TensorView& tensors) {
  tensors.AddModule(to + "norm1", of + "layernorm_before");
  tensors.AddModule(to + "attention.q", of + "attention.self.query");
  tensors.AddModule(to + "attention.k", of + "attention.self.key");
  tensors.AddModule(to + "attention.v", of + "attention.self.value");
  tensors.Add(to + "attention.relative_bias", of + "attention.self.relative_position_bias_table");
  tensors.AddModule(to + "attention.o", of + "attention.output.dense");
  tensors.AddModule(to + "norm2", of + "layernorm_after");
  tensors.AddModule(to + "ffn.up", of + "intermediate.dense");
  tensors.AddModule(to + "ffn.down", of + "output.dense");
}

void AddTensors(const Shape& shape, const std::string& prefix, TensorView& tensors) {
  const std::string embeddings = prefix + "embeddings.";
  tensors.Add("embed.patches.weight",
              ViewedTensor(embeddings + "patch_embeddings.projection.weight").Shaped({shape.width, -1}));
  tensors.Add("embed.patches.bias", embeddings + "patch_embeddings.projection.bias");
  tensors.AddModule("embed.norm", embeddings + "norm");
  for (size_t s = 0; s < shape.depths.size(); ++s) {
    const std::string of = Cat(prefix, "encoder.layers.", s, "."), to = Cat("stages.", s, ".");
    for (int64_t i = 0; i < shape.depths[s]; ++i)
      AddLayer(Cat(of, "blocks.", i, "."), Cat(to, "layers.", i, "."), tensors);
    const std::string merge = Cat("stages.", s + 1, ".merge.");
    tensors.AddModule(merge + "norm", of + "downsample.norm");
    tensors.AddModule(merge + "reduction", of + "downsample.reduction");
  }
  tensors.AddModule("norm", prefix + "layernorm");
  tensors.Ignore("*relative_position_index");
  tensors.Ignore(embeddings + "mask_token");
}

NativeModel ReadEncoder(Checkpoint& checkpoint, const std::string& prefix) {
  JsonFields& fields = checkpoint.fields();
  checkpoint.Require("use_absolute_embeddings", false);
  checkpoint.Require("layer_norm_eps", kEps);
  NativeModel model{.config = {{"model_type", "heed"}, {"architecture", "encoder"}}, .tensors = TensorView()};
  Json& config = model.config;
  const Shape shape = ReadShape(fields);
  config["hidden_size"] = shape.width;
  config["num_attention_heads"] = shape.heads[0];
  config["hidden_act"] = ActivationName(fields, "hidden_act", "gelu");
  config["norm"] = "pre";
  config["layer_norm_eps"] = kEps;
  config["input"] = {{"kind", "patches"},
                     {"patch_size", Size(fields, "patch_size", 4)},
                     {"channels", Size(fields, "num_channels", 3)},
                     {"patch_norm", true}};
  const Json& size = fields.Raw("image_size");
  config["input"]["image_size"] = size.is_array() ? size : Json(Size(fields, "image_size", 224));
  for (size_t s = 0; s < shape.depths.size(); ++s) config["stages"].push_back(StageOf(shape, s));
  AddTensors(shape, prefix, *model.tensors);
  return model;
}

}  // namespace

absl::StatusOr<NativeModel> ReadSwinFamily(Checkpoint& checkpoint) {
  NativeModel model = ReadEncoder(checkpoint, checkpoint.Prefix("swin."));
  if (checkpoint.task() == "ImageClassification") {
    SetLabels(checkpoint, "classification", model.config);
    model.config["pooling"] = "mean";
    model.tensors->AddModule("classifier", "classifier");
  } else if (checkpoint.task() != "Model") {
    return checkpoint.UnknownTask({"Model", "ForImageClassification"});
  }
  return model;
}

}  // namespace heed
