// How fast a model can be on this machine at most: its weights cannot be read faster than memory gives them,
// nor its products be computed faster than the micro-kernel is. Beside that, what it holds in each precision.
#ifndef HEED_CLIENT_CLI_PREDICTION_H_
#define HEED_CLIENT_CLI_PREDICTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/json.h"
#include "engine/models/model.h"
#include "engine/ops/limits.h"

namespace heed::cli {

struct Prediction {
  Precision precision = Precision::kF32;
  bool estimated = false;    // the model was loaded in another precision: its bytes are scaled
  int64_t weight_bytes = 0;  // in memory
  double read_rows = 0;      // a second, of one input of so many tokens, or what else its rows are
  double made_tokens = 0;    // a second, one after the other, after so many; 0: it makes none
};

// In the precisions that this machine computes in. `length`: of the input, of an encoder-decoder of source
// and text each; within the model's.
std::vector<Prediction> Predict(const Model& model, const MachineLimits& machine, int64_t length);

// With what it is of.
struct Forecast {
  int threads = 1;
  MachineLimits machine{};
  int64_t length = 0;
  std::vector<Prediction> predictions{};
};
std::string ForecastText(const Forecast& forecast, const ModelInfo& info);
Json ForecastJson(const Forecast& forecast);

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_PREDICTION_H_
