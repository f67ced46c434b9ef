// "xglm" (Lin et al. 2021): OPT's layers over sinusoids that no file holds: all sines of a position, then all
// cosines, counted from 2.
#include <algorithm>
#include <cmath>
#include <memory>

#include "engine/base/memory.h"
#include "engine/families/opt.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

Tensor SinesThenCosines(int64_t positions, int64_t width) {
  constexpr int64_t kFirst = 2;
  auto numbers = std::make_shared<Buffer>(Buffer::Zeros(positions * width * sizeof(float)));
  const int64_t half = width / 2, steps = std::max<int64_t>(half - 1, 1);
  for (int64_t position = 0; position < positions; ++position) {
    float* row = numbers->as<float>() + position * width;
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position + kFirst) *
                           std::exp(-std::log(10000.0) * static_cast<double>(i) / static_cast<double>(steps));
      row[i] = static_cast<float>(std::sin(angle));
      row[half + i] = static_cast<float>(std::cos(angle));
    }
  }
  Tensor table{DType::kF32, {positions, width}};
  table.data = numbers->as<float>();
  table.memory = std::move(numbers);
  return table;
}

}  // namespace

absl::StatusOr<NativeModel> ReadXglmFamily(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  const std::string prefix = checkpoint.Prefix("model.");
  Decoder decoder = BeginDecoder(checkpoint, Size(fields, "vocab_size", 256008),
                                 {.bos = 0, .eos = 2, .pad = 1}, prefix + "layers.");
  constexpr int64_t kMostWidth = 1 << 13, kMostPositions = 1 << 14;
  decoder.width = Size(fields, "d_model", 1024, kMostWidth);
  decoder.layers = Size(fields, "num_layers", 24, kMostLayers);
  decoder.heads = Size(fields, "attention_heads", 16);
  decoder.SetLayers({{"type", "full"}});
  Json& config = decoder.config();
  const int64_t positions = Size(fields, "max_position_embeddings", 2048, kMostPositions);
  config["intermediate_size"] = Size(fields, "ffn_dim", 4096);
  config["hidden_act"] = ActivationName(fields, "activation_function", "gelu");
  config["positions"] = "learned";
  config["max_position_embeddings"] = positions;
  if (fields.Bool("scale_embedding", true))
    config["embedding_scale"] = std::sqrt(static_cast<double>(decoder.width));

  TensorView& tensors = decoder.tensors();
  tensors.Add("embed.tokens.weight", prefix + "embed_tokens.weight");
  tensors.Add("embed.positions.weight", ViewedTensor::Of(SinesThenCosines(positions, decoder.width)));
  tensors.AddModule("norm", prefix + "layer_norm");
  AddOptLayers(decoder);
  tensors.Ignore("*embed_positions.weights");
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

}  // namespace heed
