// "vit" (Dosovitskiy et al. 2021): pre-norm layers over the patches of an image of one size and a learned row
// before them, with learned positions.
//   ImageClassification  classifier, of that row
//   Model                the rows as they are
#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

void AddLayer(const std::string& of, const std::string& to, TensorView& tensors) {
  tensors.AddModule(to + "norm1", of + "layernorm_before");
  tensors.AddModule(to + "attention.q", of + "attention.attention.query");
  tensors.AddModule(to + "attention.k", of + "attention.attention.key");
  tensors.AddModule(to + "attention.v", of + "attention.attention.value");
  tensors.AddModule(to + "attention.o", of + "attention.output.dense");
  tensors.AddModule(to + "norm2", of + "layernorm_after");
  tensors.AddModule(to + "ffn.up", of + "intermediate.dense");
  tensors.AddModule(to + "ffn.down", of + "output.dense");
}

Json ReadInput(JsonFields& fields) {
  Json input = {{"kind", "patches"},
                {"patch_size", Size(fields, "patch_size", 16)},
                {"channels", Size(fields, "num_channels", 3)},
                {"cls_token", true}};
  const Json& size = fields.Raw("image_size");
  input["image_size"] = size.is_array() ? size : Json(Size(fields, "image_size", 224));
  return input;
}

NativeModel ReadEncoder(Checkpoint& checkpoint, const std::string& prefix) {
  JsonFields& fields = checkpoint.fields();
  NativeModel model{.config = {{"model_type", "heed"}, {"architecture", "encoder"}}, .tensors = TensorView()};
  Json& config = model.config;
  const int64_t width = Size(fields, "hidden_size", 768),
                layers = Size(fields, "num_hidden_layers", 12, kMostLayers);
  config["hidden_size"] = width;
  config["num_attention_heads"] = Size(fields, "num_attention_heads", 12);
  config["intermediate_size"] = Size(fields, "intermediate_size", 3072);
  config["hidden_act"] = ActivationName(fields, "hidden_act", "gelu");
  config["norm"] = "pre";
  config["layer_norm_eps"] = fields.Number("layer_norm_eps", 1e-12, 0, 1);
  config["positions"] = "learned";
  config["input"] = ReadInput(fields);
  config["layers"] = Json(layers, Json{{"attention", {{"type", "full"}}}});

  TensorView& tensors = *model.tensors;
  const std::string embeddings = prefix + "embeddings.";
  tensors.Add("embed.cls", ViewedTensor(embeddings + "cls_token").Shaped({width}));
  tensors.Add("embed.positions.weight", ViewedTensor(embeddings + "position_embeddings").Shaped({-1, width}));
  tensors.Add("embed.patches.weight",
              ViewedTensor(embeddings + "patch_embeddings.projection.weight").Shaped({width, -1}));
  tensors.Add("embed.patches.bias", embeddings + "patch_embeddings.projection.bias");
  for (int64_t i = 0; i < layers; ++i)
    AddLayer(Cat(prefix, "encoder.layer.", i, "."), Cat("layers.", i, "."), tensors);
  tensors.AddModule("norm", prefix + "layernorm");
  tensors.Ignore(prefix + "pooler.*");
  tensors.Ignore(embeddings + "mask_token");
  return model;
}

}  // namespace

absl::StatusOr<NativeModel> ReadVitFamily(Checkpoint& checkpoint) {
  NativeModel model = ReadEncoder(checkpoint, checkpoint.Prefix("vit."));
  if (checkpoint.task() == "ImageClassification") {
    SetLabels(checkpoint, "classification", model.config);
    model.config["pooling"] = "first";
    model.tensors->AddModule("classifier", "classifier");
  } else if (checkpoint.task() != "Model") {
    return checkpoint.UnknownTask({"Model", "ForImageClassification"});
  }
  return model;
}

}  // namespace heed
