// "reformer" (Kitaev et al. 2020): two streams, each layer's attention reads the one and changes the other,
// its feed-forward the other way; what the last norm and heads read is both side by side. Layers are "local",
// of blocks and those beside them, or "lsh"; a decoder with is_decoder, else an encoder. Names:
// reformer.embeddings.{word_embeddings, position_embeddings},
// reformer.encoder.layers.I.{attention.{layer_norm, self_attention.{query, key, value or query_key, value},
// output.dense}, feed_forward.{layer_norm, dense.dense, output.dense}}, reformer.encoder.layer_norm; without
// "reformer." in a base model. Positions are a table, or axial: those of a grid, of which a file has the
// axes'.
//   ModelWithLMHead, MaskedLM   lm_head.{decoder, bias}
//   SequenceClassification      classifier.{dense (tanh), out_proj}, of the first row
//   QuestionAnswering           qa_outputs;  Model  the rows as they are
// A file has no rotations, by which tokens are hashed: they are drawn once, the same for all texts. Where it
// does not say how many buckets there are (num_buckets null), it is as many as transformers takes when its
// first text is as long as may be.
#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/memory.h"
#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

// Of a family's file: which layers hash, and where their tensors lie.
struct Layers {
  std::vector<bool> hashed;
  std::string prefix;  // of a layer's tensors, before its number
  int64_t heads = 0, head_dim = 0;
};

// Normal numbers, always the same.
Tensor Drawn(const std::vector<int64_t>& shape, int64_t seed) {
  Tensor tensor{DType::kF32, shape};
  const auto memory = std::make_shared<Buffer>(tensor.size() * SizeOf(DType::kF32));
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < tensor.size(); ++i) memory->as<float>()[i] = normal(random);
  tensor.data = memory->as<float>();
  tensor.memory = memory;
  return tensor;
}

std::vector<bool> ReadKinds(JsonFields& fields) {
  static const auto& fallback = *new Json{"local", "lsh", "local", "lsh", "local", "lsh"};
  const Json& told = fields.Raw("attn_layers");
  const Json& kinds = told.is_null() ? fallback : told;
  std::vector<bool> hashed;
  if (!kinds.is_array() || std::ssize(kinds) > kMostLayers) {
    fields.Fail(Cat("attn_layers: ", Shown(kinds), " is no list of layers"));
    return hashed;
  }
  for (const Json& kind : kinds) {
    hashed.push_back(kind == "lsh");
    if (kind != "lsh" && kind != "local")
      fields.Fail(Cat("attn_layers: ", Shown(kind), " is neither \"lsh\" nor \"local\""));
  }
  return hashed;
}

// How many columns a round's rotations have: half of the buckets, or of each factor of their number.
int64_t Directions(JsonFields& fields, const Json& buckets) {
  int64_t sum = 0;
  for (const Json& factor : buckets.is_array() ? buckets : Json::array({buckets})) {
    const bool fits = factor.is_number_integer() && factor >= 2 && factor <= kMostSize;
    if (!fits) fields.Fail(Cat("num_buckets: ", Shown(buckets), " is no number, and no list of factors"));
    sum += fits ? factor.get<int64_t>() / 2 : 1;
  }
  return sum;
}

// In an encoder the first chunk reads the last, of a text filled up to whole chunks of both kinds of layers.
Json LocalLayer(JsonFields& fields, bool causal, bool hashes) {
  const int64_t chunk = Size(fields, "local_attn_chunk_length", 64),
                of_hashes = Size(fields, "lsh_attn_chunk_length", 64), filled = hashes ? of_hashes : chunk;
  const int64_t after = fields.Int("local_num_chunks_after", 0, 0, kMostSize);
  Json attention = {{"type", "blockwise"},
                    {"block", chunk},
                    {"blocks_before", fields.Int("local_num_chunks_before", 1, 0, kMostSize)}};
  if (filled % chunk != 0)
    fields.Fail(Cat("local_attn_chunk_length: ", chunk, "; one that divides lsh_attn_chunk_length, ",
                    of_hashes, ", is served"));
  if (!causal) attention["blocks_after"] = after;
  if (!causal) attention["wrap_unit"] = filled;
  return attention;
}

// 2^power buckets, as transformers factorises them.
Json BucketsOf(JsonFields& fields, int64_t power) {
  const int64_t chunk = Size(fields, "lsh_attn_chunk_length", 64),
                chunks = Size(fields, "max_position_embeddings", 4096) / chunk,
                limit = 2 * std::max(static_cast<int64_t>(std::sqrt(static_cast<double>(chunks))), chunk),
                buckets = int64_t{1} << power;
  if (buckets <= limit) return buckets;
  return {int64_t{1} << power / 2, int64_t{1} << (power - power / 2)};
}

// Where config.json does not say: of rotations that stand beside the weights (by golden cases) those that
// have so many directions, else those of the longest text.
Json BucketsOfLength(Checkpoint& checkpoint, const std::string& rotations) {
  constexpr int64_t kMostPower = 20;
  JsonFields& fields = checkpoint.fields();
  const std::vector<int64_t> shape =
      checkpoint.Has(rotations) ? checkpoint.ShapeOf(rotations) : std::vector<int64_t>();
  for (int64_t power = 1; power <= kMostPower && !shape.empty(); ++power) {
    const Json buckets = BucketsOf(fields, power);
    if (Directions(fields, buckets) == shape.back()) return buckets;
  }
  const int64_t chunks =
      Size(fields, "max_position_embeddings", 4096) / Size(fields, "lsh_attn_chunk_length", 64);
  const auto power = static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(2 * chunks))) - 1;
  return BucketsOf(fields, std::clamp<int64_t>(power, 1, kMostPower));
}

Json HashedLayer(Checkpoint& checkpoint, bool causal, const std::string& rotations) {
  JsonFields& fields = checkpoint.fields();
  const Json& told = fields.Raw("num_buckets");
  const Json buckets = told.is_null() ? BucketsOfLength(checkpoint, rotations) : told;
  Json attention = {{"type", "lsh"},
                    {"chunk_length", Size(fields, "lsh_attn_chunk_length", 64)},
                    {"num_hashes", Size(fields, "num_hashes", 1)},
                    {"num_buckets", buckets},
                    {"chunks_before", fields.Int("lsh_num_chunks_before", 1, 0, kMostSize)}};
  const int64_t after = fields.Int("lsh_num_chunks_after", 0, 0, kMostSize);
  if (!causal) attention["chunks_after"] = after;
  return attention;
}

// Whatever the decoder's or encoder's layers are: `told` are those of config.json.
void SetLayers(Checkpoint& checkpoint, const Layers& told, bool causal, Json& config) {
  const bool hashes = std::ranges::count(told.hashed, true) > 0;
  config["layers"] = Json::array();
  for (const bool hashed : told.hashed) {
    const std::string rotations = Cat("rotations.", config["layers"].size());
    Json attention =
        hashed ? HashedLayer(checkpoint, causal, rotations) : LocalLayer(checkpoint.fields(), causal, hashes);
    attention["head_dim"] = told.head_dim;
    config["layers"].push_back({{"attention", attention}});
  }
}

void AddRotations(Checkpoint& checkpoint, const Layers& layers, const Json& config, TensorView& tensors) {
  constexpr int64_t kMostNumbers = 1 << 28;
  for (int64_t i = 0; i < std::ssize(layers.hashed); ++i) {
    if (!layers.hashed[i]) continue;
    const Json& attention = config["layers"][i]["attention"];
    const std::string stored = Cat("rotations.", i);  // by golden cases
    const std::vector<int64_t> shape = {layers.heads, layers.head_dim, attention["num_hashes"].get<int64_t>(),
                                        Directions(checkpoint.fields(), attention["num_buckets"])};
    double numbers = 1;
    for (const int64_t size : shape) numbers *= static_cast<double>(size);
    if (numbers > kMostNumbers) checkpoint.fields().Fail("num_buckets: too many to draw rotations for");
    if (!checkpoint.fields().error().ok()) return;
    tensors.Add(Cat("layers.", i, ".attention.rotations"),
                checkpoint.Has(stored) ? ViewedTensor(stored) : ViewedTensor::Of(Drawn(shape, i)));
  }
}

void AddPositions(Checkpoint& checkpoint, const std::string& module, Json& config, TensorView& tensors) {
  JsonFields& fields = checkpoint.fields();
  config["positions"] = "learned";
  if (!fields.Bool("axial_pos_embds", true)) {
    config["max_position_embeddings"] = Size(fields, "max_position_embeddings", 4096);
    tensors.Add("embed.positions.weight", module + "embedding.weight");
    return;
  }
  const std::vector<int64_t> told = fields.Ints("axial_pos_shape", 1, 8, 1, kMostSize),
                             shape = told.empty() ? std::vector<int64_t>{64, 64} : told;
  int64_t places = 1;
  std::vector<ViewedTensor> axes;
  for (const int64_t size : shape) {
    places = std::min(places * size, kMostSize + 1);
    axes.push_back(ViewedTensor(Cat(module, "weights.", axes.size())).Shaped({size, -1}));
  }
  if (places > kMostSize) fields.Fail(Cat("axial_pos_shape: more than ", kMostSize, " places"));
  config["max_position_embeddings"] = places;
  tensors.Add("embed.positions.weight", ViewedTensor::OfGrid(axes));
}

void AddLayerTensors(const Layers& layers, TensorView& tensors) {
  for (int64_t i = 0; i < std::ssize(layers.hashed); ++i) {
    const std::string to = Cat("layers.", i, "."), of = Cat(layers.prefix, i, "."),
                      attention = of + "attention.self_attention.";
    tensors.AddModule(to + "norm1", of + "attention.layer_norm");
    tensors.AddModule(to + "attention.q", attention + (layers.hashed[i] ? "query_key" : "query"));
    if (!layers.hashed[i]) tensors.AddModule(to + "attention.k", attention + "key");
    tensors.AddModule(to + "attention.v", attention + "value");
    tensors.AddModule(to + "attention.o", of + "attention.output.dense");
    tensors.AddModule(to + "norm2", of + "feed_forward.layer_norm");
    tensors.AddModule(to + "ffn.up", of + "feed_forward.dense.dense");
    tensors.AddModule(to + "ffn.down", of + "feed_forward.output.dense");
  }
  tensors.Ignore("*mask_value_float16");
  tensors.Ignore("*mask_value_float32");
}

absl::Status AddHead(Checkpoint& checkpoint, NativeModel& model) {
  const std::string& task = checkpoint.task();
  TensorView& tensors = *model.tensors;
  if (task == "ModelWithLMHead" || task == "MaskedLM") {
    model.config["head"] = "lm";
    tensors.Add("lm_head.weight", std::string("lm_head.decoder.weight"));
    tensors.Ignore("lm_head.decoder.bias");  // the same again
    if (checkpoint.version() < 5) {
      tensors.Add("lm_head.bias", std::string("lm_head.bias"));
    } else {
      tensors.Ignore("lm_head.bias");  // transformers 5 stores it and does not add it
    }
  } else if (task == "SequenceClassification") {
    AddFirstRowClassifier(checkpoint, "classifier", "tanh", model);
  } else if (!AddTokenHead(checkpoint, model) && task != "Model") {
    return checkpoint.UnknownTask(
        {"Model", "ModelWithLMHead", "ForMaskedLM", "ForSequenceClassification", "ForQuestionAnswering"});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NativeModel> ReadReformerFamily(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  const bool causal = fields.Bool("is_decoder", false);
  const std::string prefix = checkpoint.Prefix("reformer.");
  NativeModel model{
      .config = BeginConfig(checkpoint, causal ? "decoder" : "encoder", Size(fields, "vocab_size", 320)),
      .tensors = TensorView()};
  Json& config = model.config;
  TensorView& tensors = *model.tensors;
  const Layers layers{.hashed = ReadKinds(fields),
                      .prefix = prefix + "encoder.layers.",
                      .heads = Size(fields, "num_attention_heads", 12),
                      .head_dim = Size(fields, "attention_head_size", 64)};
  config["hidden_size"] = Size(fields, "hidden_size", 256);
  config["num_attention_heads"] = layers.heads;
  config["intermediate_size"] = Size(fields, "feed_forward_size", 512);
  config["hidden_act"] = ActivationName(fields, "hidden_act", "relu");
  config["norm"] = "pre";
  config["layer_norm_eps"] = fields.Number("layer_norm_eps", 1e-12, 0, 1);
  config["reversible"] = true;
  SetLayers(checkpoint, layers, causal, config);
  AddPositions(checkpoint, prefix + "embeddings.position_embeddings.", config, tensors);
  tensors.Add("embed.tokens.weight", prefix + "embeddings.word_embeddings.weight");
  AddLayerTensors(layers, tensors);
  tensors.AddModule("norm", prefix + "encoder.layer_norm");
  AddRotations(checkpoint, layers, config, tensors);
  RETURN_IF_ERROR(AddHead(checkpoint, model));
  return model;
}

}  // namespace heed
