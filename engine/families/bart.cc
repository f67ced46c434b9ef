// "bart" (Lewis et al. 2020): post-norm layers with a norm after the embedding; positions are counted from 2.
// Names: model.{encoder, decoder}.{embed_positions, layernorm_embedding, layers.I.*}, model.shared.
//   ConditionalGeneration   lm_head, tied to the embedding, with final_logits_bias
// Where the decoder reads the same text again, one token later:
//   SequenceClassification  classification_head.{dense (tanh), out_proj}, of the row of the last eos_token_id
//   QuestionAnswering       qa_outputs
#include "engine/families/bart.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "engine/base/status.h"
#include "engine/families/parts.h"
#include "engine/families/seq2seq.h"

namespace heed {
namespace {

constexpr int64_t kMostComputed = 1 << 28;  // numbers of a table of positions

Tensor SinesThenCosines(int64_t rows, int64_t width, int64_t first, double exponents) {
  auto memory = std::make_shared<Buffer>(std::max<int64_t>(rows * width, 1) * SizeOf(DType::kF32));
  float* const numbers = memory->as<float>();
  const int64_t half = width / 2;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < half; ++c) {
      const double angle =
          static_cast<double>(first + r) * std::pow(10000.0, -static_cast<double>(c) / exponents);
      numbers[r * width + c] = static_cast<float>(std::sin(angle));
      numbers[r * width + half + c] = static_cast<float>(std::cos(angle));
    }
    if (width % 2 != 0) numbers[r * width + width - 1] = 0;
  }
  return {.dtype = DType::kF32, .shape = {rows, width}, .data = numbers, .memory = memory};
}

// Keys of one side's own shape.
struct Side {
  std::string name;  // "encoder"
  int64_t layers, heads, hidden;
};

Side ReadSide(JsonFields& fields, const BartKind& kind, const std::string& name) {
  return {.name = name,
          .layers = Size(fields, name + "_layers", name == "decoder" ? kind.decoder_layers : kind.layers,
                         kMostLayers),
          .heads = Size(fields, name + "_attention_heads", kind.heads),
          .hidden = Size(fields, name + "_ffn_dim", kind.hidden)};
}

// Of the decoder what differs from the encoder's.
Json LayerOf(const Side& side, const Side& encoder) {
  Json attention = {{"type", "full"}};
  if (side.heads != encoder.heads) attention["num_heads"] = side.heads;
  Json layer = {{"attention", attention}};
  if (side.name == "decoder") layer["cross_attention"] = attention;
  if (side.hidden != encoder.hidden) layer["ffn"] = {{"intermediate_size", side.hidden}};
  return layer;
}

void AddAttention(const std::string& of, const std::string& to, TensorView& tensors) {
  for (const char* name : {"q", "k", "v"}) tensors.AddModule(Cat(to, ".", name), Cat(of, ".", name, "_proj"));
  tensors.AddModule(to + ".o", of + ".out_proj");
}

void AddLayer(const std::string& of, const std::string& to, TensorView& tensors) {
  AddAttention(of + "self_attn", to + "attention", tensors);
  tensors.AddModule(to + "norm1", of + "self_attn_layer_norm");
  AddAttention(of + "encoder_attn", to + "cross_attention", tensors);
  tensors.AddModule(to + "norm_cross", of + "encoder_attn_layer_norm");
  tensors.AddModule(to + "ffn.up", of + "fc1");
  tensors.AddModule(to + "ffn.down", of + "fc2");
  tensors.AddModule(to + "norm2", of + "final_layer_norm");
}

void AddPositions(Checkpoint& checkpoint, const BartKind& kind, const std::string& of, const std::string& to,
                  NativeModel& model) {
  const std::string stored = of + "embed_positions.weight", name = to + "embed.positions.weight";
  model.tensors->Ignore(of + "embed_positions.weights");  // of early releases of M2M-100, computed
  const auto rows = model.config["max_position_embeddings"].get<int64_t>(),
             width = model.config["hidden_size"].get<int64_t>();
  if (kind.positions == nullptr || checkpoint.Has(stored)) {
    model.tensors->Add(name, ViewedTensor(stored).RowsFrom(kind.skipped));
  } else if (rows > kMostComputed / width) {
    checkpoint.fields().Fail(Cat("max_position_embeddings: ", rows, " times d_model ", width,
                                 " numbers of a table that is not in the file; at most ", kMostComputed,
                                 " are computed"));
  } else {
    model.tensors->Add(name, ViewedTensor::Of(kind.positions(rows, width)));
  }
}

void AddSide(Checkpoint& checkpoint, const BartKind& kind, const Side& side, NativeModel& model) {
  TensorView& tensors = *model.tensors;
  const std::string of = Cat(kind.prefix, side.name, "."), to = side.name + ".";
  if (kind.shared) {
    AddSharedEmbedding(checkpoint, kind.prefix, to, tensors);
  } else {
    tensors.Add(to + "embed.tokens.weight", of + "embed_tokens.weight");
  }
  AddPositions(checkpoint, kind, of, to, model);
  tensors.AddModule(to + "embed.norm", of + "layernorm_embedding");
  for (int64_t i = 0; i < side.layers; ++i)
    AddLayer(Cat(of, "layers.", i, "."), Cat(to, "layers.", i, "."), tensors);
  tensors.AddModule(to + "norm", of + "layer_norm");
  tensors.Ignore(of + "version");  // of early releases
}

void ReadShape(Checkpoint& checkpoint, const BartKind& kind, const Side& encoder, Json& config) {
  JsonFields& fields = checkpoint.fields();
  for (const auto& [key, id] : kind.tokens) DefaultToken(key, id, config);
  const int64_t width = Size(fields, "d_model", kind.width);
  config["hidden_size"] = width;
  config["num_attention_heads"] = encoder.heads;
  config["intermediate_size"] = encoder.hidden;
  config["hidden_act"] = ActivationName(fields, "activation_function", kind.activation);
  config["norm"] = kind.norm_first ? "pre" : "post";
  config["positions"] = "learned";
  config["max_position_embeddings"] = Size(fields, "max_position_embeddings", kind.max_positions);
  config["embedding_norm"] = kind.embedding_norm;
  if (fields.Bool("scale_embedding", kind.scale_embedding))
    config["embedding_scale"] = std::sqrt(static_cast<double>(width));
}

// Of what reads its input twice: labels of the last end token's row, or spans.
NativeModel WithReadingHead(Checkpoint& checkpoint, NativeModel model) {
  Json& config = model.config;
  model.tensors->Ignore("final_logits_bias");
  if (checkpoint.task() == "QuestionAnswering") {
    AddTokenHead(checkpoint, model);
    return model;
  }
  AddFirstRowClassifier(checkpoint, "classification_head", "tanh", model);
  const Json& ends = config["eos_token_id"];
  if (!ends.is_number_integer())
    checkpoint.fields().Fail(
        Cat("eos_token_id: ", Shown(ends), " is not the id of the token whose last row is classified"));
  config["pooling"] = "last_token";
  config["pooling_token"] = ends;
  return model;
}

}  // namespace

Tensor MarianPositions(int64_t rows, int64_t width) {
  return SinesThenCosines(rows, width, 0, static_cast<double>(width) / 2);
}

Tensor M2m100Positions(int64_t rows, int64_t width) {
  return SinesThenCosines(rows, width, 2, static_cast<double>(std::max<int64_t>(width / 2 - 1, 1)));
}

absl::StatusOr<NativeModel> ReadBartKind(Checkpoint& checkpoint, const BartKind& kind) {
  JsonFields& fields = checkpoint.fields();
  const std::string& task = checkpoint.task();
  const bool writes = kind.architecture == task || kind.architecture == "For" + task;
  const bool reads = kind.reads && (task == "SequenceClassification" || task == "QuestionAnswering");
  if (!writes && !kind.reads) return checkpoint.UnknownTask({kind.architecture});
  if (!writes && !reads)
    return checkpoint.UnknownTask({kind.architecture, "ForSequenceClassification", "ForQuestionAnswering"});
  NativeModel model{.config = BeginConfig(checkpoint, writes ? "encoder-decoder" : "twice-read-encoder",
                                          Size(fields, "vocab_size", kind.vocab_size)),
                    .tensors = TensorView()};
  Json& config = model.config;
  TensorView& tensors = *model.tensors;
  const Side encoder = ReadSide(fields, kind, "encoder"), decoder = ReadSide(fields, kind, "decoder");
  ReadShape(checkpoint, kind, encoder, config);
  config["layers"] = Json(encoder.layers, LayerOf(encoder, encoder));
  config["decoder_layers"] = Json(decoder.layers, LayerOf(decoder, encoder));
  for (const Side& side : {encoder, decoder}) AddSide(checkpoint, kind, side, model);
  if (reads) return WithReadingHead(checkpoint, std::move(model));
  AddLanguageHead(checkpoint, /*tied=*/true, model);
  tensors.Add("lm_head.bias", ViewedTensor("final_logits_bias").Shaped({-1}));
  return model;
}

absl::StatusOr<NativeModel> ReadBartFamily(Checkpoint& checkpoint) {
  return ReadBartKind(
      checkpoint,
      {.embedding_norm = true,
       .skipped = 2,
       .reads = true,
       .tokens = {
           {"bos_token_id", 0}, {"pad_token_id", 1}, {"eos_token_id", 2}, {"decoder_start_token_id", 2}}});
}

}  // namespace heed
