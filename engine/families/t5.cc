// "t5" (Raffel et al. 2020), "mt5" (Xue et al. 2021), "umt5" (Chung et al. 2023): pre-norm layers with RMS
// norms, without positions but for a learned bias of each bucket of distances, the first layer's for all
// layers of a side (UMT5: each its own). Scores are not scaled. feed_forward_proj "gated-ACT" makes feed-
// forwards gated. Names: {encoder, decoder}.block.I.layer.J.{SelfAttention, EncDecAttention, DenseReluDense,
// layer_norm}.
//   ConditionalGeneration  lm_head, or the shared embedding
//   EncoderModel           the encoder's rows
// Logits of what was made with a tied head are scaled by 1 / sqrt(d_model); which those are depends on the
// transformers that wrote config.json.
#include "engine/families/t5.h"

#include <cmath>
#include <string_view>

#include "engine/base/status.h"
#include "engine/families/parts.h"
#include "engine/families/seq2seq.h"

namespace heed {
namespace {

struct FeedForwardOf {
  std::string act;  // native
  bool gated;
};

FeedForwardOf ReadFeedForward(JsonFields& fields, const T5Kind& kind) {
  const std::string name = fields.String("feed_forward_proj", kind.feed_forward);
  constexpr std::string_view kGated = "gated-";
  const bool gated = fields.Bool("is_gated_act", name.starts_with(kGated));
  std::string act = name.starts_with(kGated) ? name.substr(kGated.size()) : name;
  if (name == "gated-gelu") act = "gelu_new";
  act = gated ? GatedName(fields, "dense_act_fn", act) : ActivationName(fields, "dense_act_fn", act);
  return {act, gated};
}

// The layers of one side.
struct Side {
  std::string of, to;  // names begin with it: in the file, in the model
  int64_t layers;
  bool decoder, gated, bias_in_all;
  std::string feed_forward;  // its module
};

void AddAttention(const std::string& of, const std::string& to, TensorView& tensors) {
  for (const char* name : {"q", "k", "v", "o"}) tensors.AddModule(Cat(to, ".", name), Cat(of, ".", name));
}

void AddSide(const Side& side, TensorView& tensors) {
  for (int64_t i = 0; i < side.layers; ++i) {
    const std::string of = Cat(side.of, "block.", i, ".layer."), to = Cat(side.to, "layers.", i, ".");
    AddAttention(of + "0.SelfAttention", to + "attention", tensors);
    tensors.Add(to + "attention.relative_bias", Cat(side.of, "block.", side.bias_in_all ? i : 0,
                                                    ".layer.0.SelfAttention.relative_attention_bias.weight"));
    tensors.AddModule(to + "norm1", of + "0.layer_norm");
    if (side.decoder) {
      AddAttention(of + "1.EncDecAttention", to + "cross_attention", tensors);
      tensors.AddModule(to + "norm_cross", of + "1.layer_norm");
      tensors.Ignore(of + "1.EncDecAttention.relative_attention_bias.weight");  // of early releases
    }
    const std::string last = of + (side.decoder ? "2." : "1."), dense = last + side.feed_forward;
    if (side.gated) tensors.AddModule(to + "ffn.gate", dense + ".wi_0");
    tensors.AddModule(to + "ffn.up", dense + (side.gated ? ".wi_1" : ".wi"));
    tensors.AddModule(to + "ffn.down", dense + ".wo");
    tensors.AddModule(to + "norm2", last + "layer_norm");
  }
  tensors.AddModule(side.to + "norm", side.of + "final_layer_norm");
}

// Keys of the shape, but the layers.
void ReadShape(Checkpoint& checkpoint, const T5Kind& kind, const FeedForwardOf& feed_forward, Json& config) {
  JsonFields& fields = checkpoint.fields();
  DefaultToken("pad_token_id", 0, config);
  DefaultToken("eos_token_id", 1, config);
  config["hidden_size"] = Size(fields, "d_model", kind.width);
  config["num_attention_heads"] = Size(fields, "num_heads", kind.heads);
  config["intermediate_size"] = Size(fields, "d_ff", kind.d_ff);
  config["hidden_act"] = feed_forward.act;
  config["norm"] = "pre";
  config["norm_type"] = "rms";
  config["layer_norm_eps"] = fields.Number("layer_norm_epsilon", 1e-6, 0, 1);
}

Json AttentionOf(JsonFields& fields, bool cross) {
  Json attention = {{"type", "softmax"}, {"head_dim", Size(fields, "d_kv", 64)}, {"scale", 1}};
  if (!cross) {
    attention["relative_bias"] = {{"buckets", Size(fields, "relative_attention_num_buckets", 32)},
                                  {"max_distance", Size(fields, "relative_attention_max_distance", 128)}};
  }
  return attention;
}

bool ScalesLogits(Checkpoint& checkpoint, const T5Kind& kind) {
  JsonFields& fields = checkpoint.fields();
  if (checkpoint.version() >= 5 && kind.type != "t5") return kind.type == "umt5";
  return fields.Bool("scale_decoder_outputs", fields.Bool("tie_word_embeddings", kind.tied));
}

void AddDecoder(Checkpoint& checkpoint, const T5Kind& kind, const Side& side, NativeModel& model) {
  JsonFields& fields = checkpoint.fields();
  Json& config = model.config;
  const Json layer = {{"attention", AttentionOf(fields, /*cross=*/false)},
                      {"cross_attention", AttentionOf(fields, /*cross=*/true)}};
  config["decoder_layers"] = Json(side.layers, layer);
  AddSide(side, *model.tensors);
  AddSharedEmbedding(checkpoint, "", side.to, *model.tensors);
  DefaultToken("decoder_start_token_id", 0, config);
  AddLanguageHead(checkpoint, kind.tied, model);
  if (ScalesLogits(checkpoint, kind))
    config["logits_scale"] = 1 / std::sqrt(config["hidden_size"].get<double>());
}

}  // namespace

absl::StatusOr<NativeModel> ReadT5Kind(Checkpoint& checkpoint, const T5Kind& kind) {
  JsonFields& fields = checkpoint.fields();
  const std::string& task = checkpoint.task();
  const bool encoder = task == "EncoderModel";
  if (!encoder && task != "ConditionalGeneration" && task != "WithLMHeadModel")
    return checkpoint.UnknownTask({"EncoderModel", "ForConditionalGeneration"});
  const int64_t vocab_size = Size(fields, "vocab_size", kind.vocab_size);
  NativeModel model{.config = BeginConfig(checkpoint, encoder ? "encoder" : "encoder-decoder", vocab_size),
                    .tensors = TensorView()};
  const FeedForwardOf feed_forward = ReadFeedForward(fields, kind);
  ReadShape(checkpoint, kind, feed_forward, model.config);
  const int64_t layers = Size(fields, "num_layers", kind.layers, kMostLayers);
  model.config["layers"] = Json(layers, Json{{"attention", AttentionOf(fields, /*cross=*/false)}});
  const Side side{.of = "encoder.",
                  .to = encoder ? "" : "encoder.",
                  .layers = layers,
                  .decoder = false,
                  .gated = feed_forward.gated,
                  .bias_in_all = kind.bias_in_all,
                  .feed_forward = std::string(kind.feed_forward_module)};
  AddSide(side, *model.tensors);
  AddSharedEmbedding(checkpoint, "", side.to, *model.tensors);
  if (encoder) {
    for (const char* others : {"decoder.*", "lm_head.weight"}) model.tensors->Ignore(others);
    return model;
  }
  AddDecoder(checkpoint, kind,
             {.of = "decoder.",
              .to = "decoder.",
              .layers = Size(fields, "num_decoder_layers", layers, kMostLayers),
              .decoder = true,
              .gated = feed_forward.gated,
              .bias_in_all = kind.bias_in_all,
              .feed_forward = std::string(kind.feed_forward_module)},
             model);
  return model;
}

absl::StatusOr<NativeModel> ReadT5Family(Checkpoint& checkpoint) {
  return ReadT5Kind(checkpoint, {.type = "t5"});
}

absl::StatusOr<NativeModel> ReadMt5Family(Checkpoint& checkpoint) {
  return ReadT5Kind(checkpoint, {.type = "mt5",
                                 .vocab_size = 250112,
                                 .d_ff = 1024,
                                 .layers = 8,
                                 .heads = 6,
                                 .feed_forward = "gated-gelu",
                                 .tied = false});
}

absl::StatusOr<NativeModel> ReadUmt5Family(Checkpoint& checkpoint) {
  return ReadT5Kind(checkpoint, {.type = "umt5",
                                 .vocab_size = 250112,
                                 .d_ff = 1024,
                                 .layers = 8,
                                 .heads = 6,
                                 .feed_forward = "gated-gelu",
                                 .bias_in_all = true});
}

}  // namespace heed
