// "funnel" (Dai et al. 2020): blocks of post-norm layers, each on half as many rows as the one before, with
// relative positions and segments; then, but in a base model, layers on as many rows as there are tokens.
// Names: funnel.embeddings.{word_embeddings, layer_norm}, funnel.encoder.blocks.B.I.{attention.{q_head,
// k_head, v_head, r_kernel, r_w_bias, r_r_bias, r_s_bias, seg_embed, post_proj, layer_norm}, ffn.{linear_1,
// linear_2, layer_norm}}, funnel.decoder.layers.I.*; without "funnel." in a model without a head. Token type
// 2 is the first token's: of the segments of all. A layer of block B is passed block_repeats[B] times.
//   BaseModel               the last block's rows as they are
//   SequenceClassification  classifier.{linear_hidden (tanh), linear_out}, of the first of them
//   Model                   the tokens' rows
//   MaskedLM                lm_head, tied to the embedding
//   PreTraining             discriminator_predictions.{dense, dense_prediction}: a score for each token
//   TokenClassification     classifier;  QuestionAnswering  qa_outputs
// A file does not say how far positions may be apart: max_position_embeddings, or else 512.
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr int64_t kTypes = 3, kTypeOfFirst = 2;

bool HasDecoder(const std::string& task) { return task != "BaseModel" && task != "SequenceClassification"; }

// How many layers each block has, and how often each of them is passed.
struct Blocks {
  std::vector<int64_t> sizes, repeats;
};

Blocks ReadBlocks(JsonFields& fields) {
  constexpr int64_t kMostBlocks = 63;
  Blocks blocks{fields.Ints("block_sizes", 1, kMostBlocks, 1, kMostLayers),
                fields.Ints("block_repeats", 1, kMostBlocks, 1, kMostLayers)};
  if (blocks.sizes.empty()) blocks.sizes = {4, 4, 4};
  if (blocks.repeats.empty()) blocks.repeats.assign(blocks.sizes.size(), 1);
  if (blocks.repeats.size() != blocks.sizes.size())
    fields.Fail(
        Cat("block_repeats: ", blocks.repeats.size(), " numbers of ", blocks.sizes.size(), " blocks"));
  blocks.repeats.resize(blocks.sizes.size(), 1);
  int64_t passed = 0;
  for (size_t b = 0; b < blocks.sizes.size(); ++b) passed += blocks.sizes[b] * blocks.repeats[b];
  if (passed <= kMostLayers) return blocks;
  fields.Fail(
      Cat("block_sizes: ", passed, " layers with block_repeats; at most ", kMostLayers, " can be served"));
  return {{1}, {1}};
}

// Native tensors of a layer, of those of `of`.
void AddLayer(const std::string& of, const std::string& to, const Json& config, TensorView& tensors) {
  const std::string attention = of + "attention.", native = to + "attention.";
  tensors.AddModule(native + "q", attention + "q_head");
  tensors.AddModule(native + "k", attention + "k_head");
  tensors.AddModule(native + "v", attention + "v_head");
  tensors.AddModule(native + "o", attention + "post_proj");
  tensors.Add(
      native + "r.weight",
      ViewedTensor(attention + "r_kernel").Shaped({config["hidden_size"].get<int64_t>(), -1}).Transposed());
  tensors.Add(native + "pos_bias_u", attention + "r_w_bias");
  tensors.Add(native + "pos_bias_v", attention + "r_r_bias");
  tensors.Add(native + "segment_bias", attention + "r_s_bias");
  tensors.Add(native + "segments", attention + "seg_embed");
  tensors.AddModule(to + "norm1", attention + "layer_norm");
  tensors.AddModule(to + "ffn.up", of + "ffn.linear_1");
  tensors.AddModule(to + "ffn.down", of + "ffn.linear_2");
  tensors.AddModule(to + "norm2", of + "ffn.layer_norm");
}

void SetShape(JsonFields& fields, Json& config) {
  const int64_t positions = Size(fields, "max_position_embeddings", 512, kMostSize);
  fields.Choice("attention_type", {"relative_shift", "factorized"});  // two ways to the same numbers
  config["hidden_size"] = Size(fields, "d_model", 768);
  config["num_attention_heads"] = Size(fields, "n_head", 12);
  config["intermediate_size"] = Size(fields, "d_inner", 3072);
  config["hidden_act"] = ActivationName(fields, "hidden_act", "gelu_new");
  config["norm"] = "post";
  config["layer_norm_eps"] = fields.Number("layer_norm_eps", 1e-9, 0, 1);
  config["embedding_norm"] = true;
  config["type_vocab_size"] = kTypes;
  config["max_position_embeddings"] = positions;
  config["separate_cls"] = fields.Bool("separate_cls", true);
  config["truncate"] = fields.Bool("truncate_seq", true);
  config["pooled_above"] = config["separate_cls"] == true ? 2 : 1;
  config["pool"] = fields.Choice("pooling_type", {"mean", "max"});
  config["pool_keys"] = !fields.Bool("pool_q_only", true);
}

void AddBlocks(const Blocks& blocks, const std::string& prefix, const Json& layer, NativeModel& model) {
  Json& config = model.config;
  config["blocks"] = Json::array();
  for (size_t b = 0; b < blocks.sizes.size(); ++b) {
    const int64_t repeats = blocks.repeats[b], passed = blocks.sizes[b] * repeats;
    config["blocks"].push_back({{"layers", Json(passed, layer)}});
    for (int64_t i = 0; i < passed; ++i)
      AddLayer(Cat(prefix, "encoder.blocks.", b, ".", i / repeats, "."),
               Cat("blocks.", b, ".layers.", i, "."), config, *model.tensors);
  }
}

// The rows of block 0 that a decoder adds are those that transformers has after so many layers.
void AddDecoder(JsonFields& fields, const Blocks& blocks, const std::string& prefix, const Json& layer,
                NativeModel& model) {
  if (blocks.repeats[0] != 1)
    fields.Fail(Cat("block_repeats: ", blocks.repeats[0], " of the first block; 1 is served"));
  const int64_t layers = fields.Int("num_decoder_layers", 2, 0, kMostLayers);
  model.config["decoder_layers"] = layers > 0 ? Json(layers, layer) : Json::array();
  for (int64_t i = 0; i < layers; ++i)
    AddLayer(Cat(prefix, "decoder.layers.", i, "."), Cat("decoder.layers.", i, "."), model.config,
             *model.tensors);
}

absl::Status AddHead(Checkpoint& checkpoint, NativeModel& model) {
  const std::string& task = checkpoint.task();
  Json& config = model.config;
  TensorView& tensors = *model.tensors;
  if (task == "MaskedLM") {
    config["head"] = "lm";
    tensors.AddModule("lm_head", "lm_head");
  } else if (task == "SequenceClassification") {
    SetLabels(checkpoint, "classification", config);
    config["pooling"] = "first";
    AddHeadLayer(config["hidden_size"], "tanh", /*norm=*/false, config);
    tensors.AddModule("head_layers.0", "classifier.linear_hidden");
    tensors.AddModule("classifier", "classifier.linear_out");
  } else if (task == "PreTraining") {
    config["head"] = "token_classification";
    config["num_labels"] = 1;
    config["id2label"] = {{"0", "replaced"}};
    config["problem_type"] = "multi_label_classification";
    AddHeadLayer(config["hidden_size"], config["hidden_act"], /*norm=*/false, config);
    tensors.AddModule("head_layers.0", "discriminator_predictions.dense");
    tensors.AddModule("classifier", "discriminator_predictions.dense_prediction");
  } else if (!AddTokenHead(checkpoint, model) && task != "Model" && task != "BaseModel") {
    return checkpoint.UnknownTask({"Model", "BaseModel", "ForMaskedLM", "ForPreTraining",
                                   "ForSequenceClassification", "ForTokenClassification",
                                   "ForQuestionAnswering"});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NativeModel> ReadFunnelFamily(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  const std::string prefix = checkpoint.Prefix("funnel.");
  NativeModel model{.config = BeginConfig(checkpoint, "funnel-encoder", Size(fields, "vocab_size", 30522)),
                    .tensors = TensorView()};
  SetShape(fields, model.config);
  const Blocks blocks = ReadBlocks(fields);
  const Json layer = {{"attention",
                       {{"type", "relative_segments"},
                        {"max_distance", model.config["max_position_embeddings"]},
                        {"any_segment", kTypeOfFirst},
                        {"head_dim", Size(fields, "d_head", 64)}}}};
  TensorView& tensors = *model.tensors;
  tensors.Add("embed.tokens.weight", prefix + "embeddings.word_embeddings.weight");
  // A type adds nothing to a token's row.
  tensors.Add("embed.types.weight",
              ViewedTensor::Zeros({kTypes, model.config["hidden_size"].get<int64_t>()}));
  tensors.AddModule("embed.norm", prefix + "embeddings.layer_norm");
  AddBlocks(blocks, prefix, layer, model);
  if (HasDecoder(checkpoint.task())) AddDecoder(fields, blocks, prefix, layer, model);
  RETURN_IF_ERROR(AddHead(checkpoint, model));
  return model;
}

}  // namespace heed
