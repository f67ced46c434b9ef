// Layers of a configuration, added to a stack: what all architectures are made of.
#ifndef HEED_ENGINE_MODELS_LAYERS_H_
#define HEED_ENGINE_MODELS_LAYERS_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/models/config.h"
#include "engine/models/stack.h"
#include "engine/weights/weights.h"

namespace heed {

// Of which sizes layers are, and how they stand in the model.
struct LayerPlan {
  explicit LayerPlan(const ModelConfig& config);  // the configuration's sizes

  int64_t width = 0;
  int num_heads = 0;
  int64_t intermediate_size = 0;
  HiddenAct act;
  NormOptions norm;
  float residual_multiplier = 1;
  std::vector<int64_t> grid;
  std::optional<ImageRows> image;  // if the rows are an image's
  bool reversible = false;
  bool causal = false;
  bool first_unnormed = false;  // the first layer's attention has no norm
  int64_t layer_input = 0;      // numbers that each layer reads behind its rows (layer_inputs.h)
  bool keys_lent = false;       // the attention at hand reads another's keys and values
  int64_t front = 0;            // rows of the set before those of the input, which all see and which see all
  std::optional<RowSpacing> spacing;  // of the set's rows
  int64_t group = 0;                  // rows that attend to one another alone; 0: as the set says
  int source = Stack::kItself;        // the set that cross-attention reads
  int64_t source_width = 0;           // of its rows; 0: width
  std::string key = "layers";         // of the layers in config.json, for errors
  Precision precision = Precision::kF32;
};

// How the layers' sublayers stand in the residual stream.
ResidualOptions ResidualOf(const LayerPlan& plan, bool attention);

// An attention with its options, which stand under `where` in config.json. Tensors: scope/{q, ..., o}, and
// norm/{weight, bias}.
absl::StatusOr<AttentionSublayer> LoadAttention(const LayerPlan& plan, const Json& options, bool cross,
                                                std::string where, const WeightScope& scope,
                                                const WeightScope& norm);

// A layer's feed-forward; null if it has none. Tensors: scope, and norm/{weight, bias}.
absl::StatusOr<std::unique_ptr<RowStep>> LoadFeedForward(const LayerPlan& plan, std::string where,
                                                         const Json& options, const WeightScope& scope,
                                                         const WeightScope& norm);
// The same, appended.
absl::Status AddFeedForward(const LayerPlan& plan, std::string where, const Json& options,
                            const WeightScope& scope, const WeightScope& norm, int set, Stack& stack);

// Appends the i-th of the plan's layers, which is number `number` of the model's: its attention, which reads
// the source where `shortens` says so, its cross-attention if it has one, its feed-forward. Tensors:
// scope/{norm1, attention, norm_cross, cross_attention, norm2, ffn}, and of a sandwich of norms
// {norm1, norm_cross, norm2}_post.
absl::Status AddLayer(const LayerPlan& plan, const LayerConfig& layer, int i, int number,
                      const WeightScope& scope, int set, Stack& stack, bool shortens = false);
// All of them; scope/layers.I. `number`: of the first, and what comes after the last.
absl::Status AddLayers(const LayerPlan& plan, const std::vector<LayerConfig>& layers, int* number,
                       const WeightScope& scope, int set, Stack& stack);

// A product beside the layers'. Tensors: scope/NAME.weight [out, in], and .bias where present.
absl::StatusOr<PackedWeights> LoadWeights(const WeightScope& scope, const std::string& name, int64_t out,
                                          int64_t in, Precision precision);

// scope/norm, where the configuration has a norm after the last layer; else none.
absl::StatusOr<std::optional<Norm>> LoadLastNorm(const ModelConfig& config, int64_t width,
                                                 const WeightScope& scope);

// Appends the embedding of tokens in the plan's width, behind the set's rows in front. The tables are the
// stack's.
absl::StatusOr<Embedding> AddEmbedding(const ModelConfig& config, const LayerPlan& plan,
                                       const WeightScope& scope, int set, Stack& stack);

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_LAYERS_H_
