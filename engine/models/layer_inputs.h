// Inputs of each layer (Gemma 3n, 2025; Gemma 4, 2026): numbers that are made of a token and of its first row
// before all layers, lie behind the row in the residual stream, and are read by one layer each:
//   inputs = norm_i(P x), or (norm_i(P x) + sqrt(size) table[id]) / sqrt(2)    of layer i `size` numbers
//   x + norm(out (activation(gate x) * inputs_i))                              behind the layer's
//   feed-forward
#ifndef HEED_ENGINE_MODELS_LAYER_INPUTS_H_
#define HEED_ENGINE_MODELS_LAYER_INPUTS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/models/layers.h"
#include "engine/models/row_step.h"

namespace heed {

// Makes those of the configuration's layers, of rows that are embedded. Tensors: scope/layer_inputs.{
// projection.weight [layers * size, hidden_size], norm.{weight, bias} of size}, and of a table
// scope/embed.layer_inputs.weight [vocab_size, layers * size], whose bytes are added to `table_bytes`.
absl::StatusOr<std::unique_ptr<RowStep>> LoadInputsOfLayers(const ModelConfig& config, const LayerPlan& plan,
                                                            const WeightScope& scope, int64_t* table_bytes);

// What the i-th layer does with its own. Tensors: scope/{gate.weight [size, hidden_size], out.weight
// [hidden_size, size], norm.{weight, bias}}.
absl::StatusOr<std::unique_ptr<RowStep>> LoadInputOfLayer(const LayerPlan& plan, int i,
                                                          const WeightScope& scope);

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_LAYER_INPUTS_H_
