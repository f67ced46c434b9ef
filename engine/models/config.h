// config.json of the native format ("model_type": "heed"): any attention in any layer. The keys follow
// Hugging Face where it has one; the meaning of each is defined by the project's oracle.
#ifndef HEED_ENGINE_MODELS_CONFIG_H_
#define HEED_ENGINE_MODELS_CONFIG_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/blocks/embedding.h"
#include "engine/blocks/feed_forward.h"
#include "engine/blocks/norm.h"
#include "engine/models/model.h"

namespace heed {

// Of all rows one: kMean of them; kMeanSqrtLen, their sum over the root of their number; kWeightedMean, with
// weights 1, 2, ... n (Muennighoff 2022); kMax, in each column; kLastTokenNot, the last whose token is not
// the padding's, say, or the last if there is none; kLastToken, the last whose token it is, or the last.
enum class Pooling {
  kNone,
  kFirst,
  kMean,
  kLast,
  kMax,
  kMeanSqrtLen,
  kWeightedMean,
  kLastTokenNot,
  kLastToken
};
inline bool SeeksToken(Pooling pooling) {
  return pooling == Pooling::kLastTokenNot || pooling == Pooling::kLastToken;
}

struct LayerConfig {
  // Where its norms stand, instead of where the model's do: of all its sublayers, of its attention.
  std::optional<NormPlacement> norm, attention_norm;
  bool parallel =
      false;  // the feed-forward reads what the attention reads: both are added to the layer's input
  bool scaled = false;  // its rows are multiplied by a learned number when it is done
  // Its attention reads the keys and values of this layer's, which comes before, and makes none.
  std::optional<int64_t> keys_of;
  Json attention;        // {"type", options}, read by the variant
  Json cross_attention;  // the same; null but in the decoder of an encoder-decoder
  Json feed_forward;     // the same under "ffn", read by the feed-forward; {} where the file has none
  // x = norm(layer(x) + activation(convolution over so many neighbours of what x was before)); 0: x =
  // layer(x). Encoders, DeBERTa V2's (He et al. 2021). Tensors: convolution.{weight [hidden_size, kernel
  // hidden_size], bias}, norm_convolution.
  int64_t convolution_kernel = 0;
  Activation convolution_activation = Activation::kNone;
  std::string axis;  // along which rows of a table it runs; empty where layers have none
};

// Of "head_layers": norm(activation(W x + b)), before the head's last product or, if there is none, before
// the answer; its norm is a layer norm. Tensors: head_layers.I.{weight, bias where present, norm.{weight,
// bias}}.
struct HeadLayerConfig {
  int64_t width = 0;
  Activation activation = Activation::kNone;
  bool norm = false;
};

class StackRecipe;

struct ModelConfig {
  Architecture architecture = Architecture::kEncoder;
  std::shared_ptr<const StackRecipe> recipe;  // of the architecture by its name, with its own keys
  int64_t vocab_size = 0;                     // 0: the input is no tokens
  int64_t width = 0;                          // hidden_size
  int num_heads = 0;                          // num_attention_heads
  std::vector<int64_t> grid;      // of positions: shape, or height and width; empty if there is none
  int64_t intermediate_size = 0;  // 0: not given, as some feed-forwards need none
  HiddenAct act;
  NormOptions norm;
  float residual_multiplier = 1;    // what a sublayer gives is added times this
  bool reversible = false;          // two streams: attention reads the second and changes the first
  int64_t extra_global_tokens = 0;  // learned rows before those of the input
  int64_t layer_inputs = 0;         // numbers that a layer reads beside its rows; 0: none
  bool layer_inputs_table = false;  // tokens have rows of a table in them
  float embedding_scale = 1;
  Positions positions = Positions::kNone;
  int64_t max_positions = 0;          // max_position_embeddings; 0 = no limit
  int64_t decoder_max_positions = 0;  // the same of an encoder-decoder's decoder
  int64_t decoder_width = 0;          // of its rows
  float decoder_embedding_scale = 1;
  int64_t max_seq_length = 0;  // of an input, where that is less; 0 = no limit
  // Of the embedding (EmbeddingOptions), where rows are tokens.
  int64_t embedding_size = 0;  // width of what a projection reads
  EmbeddingProjection embedding_projection = EmbeddingProjection::kNone;
  // [{"tokens", "width" (hidden_size)}, ...]: tables of their own; softmaxes of their own (AdaptiveSoftmax,
  // tensors lm_head.I.*). None: one table, one product.
  std::vector<TokenCluster> embedding_clusters, head_clusters;
  bool embedding_norm = false;
  bool embedding_norm_of_tokens = false, decoder_embedding_norm_of_tokens = false;
  int64_t type_vocab_size = 0;
  bool norm_last = false;                   // a norm stands after the last layer
  std::vector<LayerConfig> layers;          // of the only stack, or of an encoder-decoder's encoder
  std::vector<LayerConfig> decoder_layers;  // of an encoder-decoder's decoder
  Head head = Head::kNone;
  Pooling pooling = Pooling::kNone;
  int32_t pooling_token = -1;  // of SeeksToken()
  bool normalize = false;
  int64_t num_labels = 0;
  std::vector<HeadLayerConfig> head_layers;
  bool late_pooling = false;  // head_layers are of each row, and what they give is pooled
  float logits_scale = 1;     // of the answer
  float logits_soft_cap = 0;  // c: then c tanh(answer / c); 0: none
  // What only names things.
  std::vector<int32_t> eos_token_ids;
  int32_t bos_token_id = -1, pad_token_id = -1, mask_token_id = -1, decoder_start_token_id = -1;
  std::vector<std::string> labels;
  bool multi_label = false;
  bool byte_tokens = false;

  // For recipes. The fields fail where there is no vocabulary, or no number of learned positions.
  void RequireTokens(JsonFields& fields) const;
  void RequirePositions(JsonFields& fields) const;  // the latter alone
  std::string default_head = "none";
  Pooling class_pooling = Pooling::kFirst;  // of head "classification", if nothing else is said
};

// Layers as config.json has them under `key`; `cross`: each has a cross-attention too; `axes`: each has one
// of these as its axis. What is wrong with them fails the fields.
std::vector<LayerConfig> ReadLayers(JsonFields& fields, const std::string& key, bool cross,
                                    const std::vector<std::string>& axes = {});
LayerConfig ReadLayer(const Json& json, const std::string& where, bool cross, JsonFields& fields,
                      const std::vector<std::string>& axes = {});

// For recipes that call AddEmbedding: the keys of its tables, its norm and its projection.
void ReadEmbeddingTables(JsonFields& fields, ModelConfig& config);
// For recipes of an encoder and a decoder: the decoder's own keys beside its layers, whose defaults are the
// encoder's. And the configuration by which its embedding and its layers are loaded.
void ReadDecoderKeys(JsonFields& fields, ModelConfig& config);
ModelConfig DecoderOf(const ModelConfig& config);
// For recipes that call LoadLastNorm and let the configuration say whether there is one.
void ReadLastNorm(JsonFields& fields, ModelConfig& config);

// Checks every key: INVALID_ARGUMENT names the key, the value and the limit; an unknown key is an error.
absl::StatusOr<ModelConfig> ParseModelConfig(const Json& json);

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_CONFIG_H_
