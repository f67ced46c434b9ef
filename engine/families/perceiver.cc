// "perceiver" (Jaegle et al. 2021, Perceiver IO) of texts: latents read the tokens once, a block of layers on
// the latents is passed num_blocks times, and learned queries read the latents. Names: perceiver.{
// input_preprocessor.{embeddings, position_embeddings}, embeddings.latents, encoder.{cross_attention,
// self_attends.I}, decoder}.*; of each reading and layer attention.{self.{query, key, value, layernorm1,
// layernorm2}, output.dense}, layernorm, mlp.{dense1, dense2}.
//   MaskedLM                max_position_embeddings queries, whatever the text's length: a row's place is its
//                           token's. embedding_decoder.bias, tied to the embedding
//   SequenceClassification  one query, perceiver.decoder.decoder.final_layer
// Queries and keys may be narrower than values, or wider: the narrower ones have zeros behind them.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr int64_t kMostHeads = 1 << 12;

// Numbers of queries and keys, and of values, in all heads.
struct Channels {
  int64_t heads = 1, keys = 0, values = 0;

  int64_t of_keys() const { return keys / heads; }
  int64_t head_dim() const { return std::max(keys, values) / heads; }
};

struct Sizes {
  int64_t width = 0, latents = 0;   // d_model, d_latents
  int64_t keys = 0, values = 0;     // 0: as the rows are wide
  bool queries_like_source = true;  // cross_attention_shape_for_attention
};

Sizes ReadSizes(JsonFields& fields) {
  return {.width = Size(fields, "d_model", 768),
          .latents = Size(fields, "d_latents", 1280),
          .keys = fields.Int("qk_channels", 0, 1, kMostSize),
          .values = fields.Int("v_channels", 0, 1, kMostSize),
          .queries_like_source = fields.Choice("cross_attention_shape_for_attention", {"kv", "q"}) == "kv"};
}

Channels Checked(const Channels& channels, JsonFields& fields) {
  if (channels.keys % channels.heads == 0 && channels.values % channels.heads == 0) return channels;
  fields.Fail(Cat("qk_channels: ", channels.keys, ", and v_channels: ", channels.values,
                  " are not divisible by ", channels.heads, " heads"));
  return {.heads = 1, .keys = 1, .values = 1};
}

Json AttentionOf(const Channels& channels) {
  return {{"type", "softmax"},
          {"num_heads", channels.heads},
          {"head_dim", channels.head_dim()},
          {"scale", 1 / std::sqrt(static_cast<double>(channels.of_keys()))}};
}

// The products of an attention, and the feed-forward with its norm.
void AddLayer(const Channels& channels, const std::string& of, const std::string& attention,
              const std::string& to, TensorView& tensors) {
  const std::string self = of + "attention.self.", output = of + "attention.output.dense";
  const auto wide = [&](const std::string& name) {
    return ViewedTensor(name).WidenedGroups(channels.heads, channels.head_dim());
  };
  for (const auto& [native, name] :
       {std::pair{"q", "query"}, std::pair{"k", "key"}, std::pair{"v", "value"}}) {
    tensors.Add(Cat(attention, native, ".weight"), wide(Cat(self, name, ".weight")));
    tensors.Add(Cat(attention, native, ".bias"), wide(Cat(self, name, ".bias")));
  }
  tensors.Add(attention + "o.weight", ViewedTensor(output + ".weight")
                                          .Transposed()
                                          .WidenedGroups(channels.heads, channels.head_dim())
                                          .Transposed());
  tensors.Add(attention + "o.bias", output + ".bias");
  tensors.AddModule(to + "ffn.up", of + "mlp.dense1");
  tensors.AddModule(to + "ffn.down", of + "mlp.dense2");
}

// Where rows read others.
void AddReading(const Channels& channels, const std::string& of, const std::string& to, TensorView& tensors) {
  AddLayer(channels, of, to + "cross_attention.", to, tensors);
  tensors.AddModule(to + "norm_cross", of + "attention.self.layernorm1");
  tensors.AddModule(to + "norm_input", of + "attention.self.layernorm2");
  tensors.AddModule(to + "norm_ffn", of + "layernorm");
}

void AddEncoder(JsonFields& fields, const Sizes& sizes, NativeModel& model) {
  const std::string encoder = "perceiver.encoder.";
  const int64_t of_source = sizes.queries_like_source ? sizes.width : sizes.latents,
                cross_keys = sizes.keys > 0 ? sizes.keys : of_source,
                own_keys = sizes.keys > 0 ? sizes.keys : sizes.latents;
  const Channels cross = Checked({.heads = Size(fields, "num_cross_attention_heads", 8, kMostHeads),
                                  .keys = cross_keys,
                                  .values = sizes.values > 0 ? sizes.values : cross_keys},
                                 fields),
                 own = Checked({.heads = Size(fields, "num_self_attention_heads", 8, kMostHeads),
                                .keys = own_keys,
                                .values = sizes.values > 0 ? sizes.values : own_keys},
                               fields);
  const int64_t layers = Size(fields, "num_self_attends_per_block", 26, kMostLayers);
  Json& config = model.config;
  config["cross_attention"] = AttentionOf(cross);
  config["cross_ffn"] = {
      {"type", "dense"},
      {"intermediate_size", sizes.latents * Size(fields, "cross_attention_widening_factor", 1, 64)}};
  config["intermediate_size"] = sizes.latents * Size(fields, "self_attention_widening_factor", 1, 64);
  config["layers"] = Json(layers, Json{{"attention", AttentionOf(own)}});
  config["layer_passes"] = Size(fields, "num_blocks", 1, kMostLayers);
  config["block_weights"] = Json::array({0});
  AddReading(cross, encoder + "cross_attention.", "blocks.0.", *model.tensors);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string of = Cat(encoder, "self_attends.", i, "."), to = Cat("blocks.0.layers.", i, ".");
    AddLayer(own, of, to + "attention.", to, *model.tensors);
    model.tensors->AddModule(to + "norm1", of + "attention.self.layernorm1");
    model.tensors->AddModule(to + "norm2", of + "layernorm");
  }
}

// What reads the latents. `decoder`: where its tensors lie.
void AddOutput(const Channels& channels, int64_t queries, int64_t size, bool residual,
               const std::string& decoder, NativeModel& model) {
  model.config["output"] = {{"queries", queries},
                            {"size", size},
                            {"cross_attention", AttentionOf(channels)},
                            {"ffn", {{"type", "dense"}, {"intermediate_size", size}}},
                            {"residual", residual}};
  TensorView& tensors = *model.tensors;
  tensors.Add("output.queries", decoder + "output_position_encodings.position_embeddings");
  AddReading(channels, decoder + "decoding_cross_attention.", "output.", tensors);
}

absl::Status AddHead(Checkpoint& checkpoint, const Sizes& sizes, NativeModel& model) {
  constexpr int64_t kHeads = 8, kKeys = 256;  // of a masked language model's queries
  const std::string& task = checkpoint.task();
  TensorView& tensors = *model.tensors;
  Json& config = model.config;
  if (task == "MaskedLM") {
    AddOutput(Checked({.heads = kHeads, .keys = kKeys, .values = sizes.width}, checkpoint.fields()),
              config["max_position_embeddings"].get<int64_t>(), sizes.width, /*residual=*/false,
              "perceiver.decoder.", model);
    config["head"] = "lm";
    tensors.Add("lm_head.bias", std::string("embedding_decoder.bias"));
  } else if (task == "SequenceClassification") {
    const std::string decoder = "perceiver.decoder.decoder.";
    AddOutput({.heads = 1, .keys = sizes.latents, .values = sizes.latents}, 1, sizes.latents,
              /*residual=*/true, decoder, model);
    SetLabels(checkpoint, "classification", config);
    tensors.AddModule("classifier", decoder + "final_layer");
  } else {
    return checkpoint.UnknownTask({"ForMaskedLM", "ForSequenceClassification"});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NativeModel> ReadPerceiverFamily(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  checkpoint.Require("use_query_residual", true);
  const Sizes sizes = ReadSizes(fields);
  NativeModel model{.config = BeginConfig(checkpoint, "perceiver-encoder", Size(fields, "vocab_size", 262)),
                    .tensors = TensorView()};
  Json& config = model.config;
  config["hidden_size"] = sizes.latents;
  config["num_attention_heads"] = 1;  // each attention has its own
  config["hidden_act"] = ActivationName(fields, "hidden_act", "gelu");
  config["norm"] = "pre";
  config["layer_norm_eps"] = 1e-5;  // whatever config.json says
  config["input"] = {{"kind", "tokens"}};
  config["input_size"] = sizes.width;
  config["num_latents"] = Size(fields, "num_latents", 256);
  config["positions"] = "learned";
  config["max_position_embeddings"] = Size(fields, "max_position_embeddings", 2048);
  TensorView& tensors = *model.tensors;
  tensors.Add("latents", std::string("perceiver.embeddings.latents"));
  tensors.Add("embed.tokens.weight", std::string("perceiver.input_preprocessor.embeddings.weight"));
  tensors.Add("embed.positions.weight",
              std::string("perceiver.input_preprocessor.position_embeddings.weight"));
  AddEncoder(fields, sizes, model);
  RETURN_IF_ERROR(AddHead(checkpoint, sizes, model));
  return model;
}

}  // namespace heed
