#include "client/cli/prediction.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/cli/figures.h"
#include "engine/base/status.h"

namespace heed::cli {
namespace {

constexpr Precision kPrecisions[] = {Precision::kF32, Precision::kBf16, Precision::kInt8};

// Of a weight in a product.
double BytesOfWeight(Precision precision) {
  return precision == Precision::kF32 ? 4 : precision == Precision::kBf16 ? 2 : 1;
}

bool MakesTokens(const ModelInfo& info) {
  return info.head == Head::kLanguageModel && info.architecture != Architecture::kEncoder &&
         info.decode != DecodeClass::kNone;
}

Prediction PredictIn(Precision precision, const Model& model, const MachineLimits& machine, int64_t length) {
  const ModelInfo& info = model.info();
  const double operations = machine.operations[static_cast<int>(precision)];
  const double products =
      static_cast<double>(info.weight_bytes) * BytesOfWeight(precision) / BytesOfWeight(info.precision);
  const int64_t source = info.architecture == Architecture::kEncoderDecoder ? length : 0;
  const auto seconds = [&](double multiply_adds, double bytes) {
    return std::max(2 * multiply_adds / operations, bytes / machine.read_bytes);
  };
  Prediction prediction{.precision = precision,
                        .estimated = precision != info.precision,
                        .weight_bytes = static_cast<int64_t>(products) + info.embedding_bytes};
  const auto rows = static_cast<double>(length + source);
  prediction.read_rows = rows / seconds(model.Cost(length, source), products);
  if (!MakesTokens(info)) return prediction;
  // Of experts, only those that a token chooses are read: no more weights than it is multiplied with.
  const double step = model.Cost(length, source) - model.Cost(length - 1, source);
  const double read = std::min(products, step * BytesOfWeight(precision));
  prediction.made_tokens = 1 / seconds(step, read + static_cast<double>(model.StateBytes(length, source)));
  return prediction;
}

}  // namespace

std::vector<Prediction> Predict(const Model& model, const MachineLimits& machine, int64_t length) {
  std::vector<Prediction> predictions;
  for (const Precision precision : kPrecisions) {
    if (machine.operations[static_cast<int>(precision)] > 0)
      predictions.push_back(PredictIn(precision, model, machine, length));
  }
  return predictions;
}

std::string ForecastText(const Forecast& forecast, const ModelInfo& info) {
  const std::string rows = info.input.kind == InputRow::Kind::kToken ? "tokens" : "rows";
  const auto& operations = forecast.machine.operations;
  std::string text = absl::StrFormat(
      "at most, here: %d threads read %.1f GB/s and compute %.0f, %.0f, %.0f GOP/s (f32, bf16, int8)\n",
      forecast.threads, 1e-9 * forecast.machine.read_bytes, 1e-9 * operations[0], 1e-9 * operations[1],
      1e-9 * operations[2]);
  const auto add = [&](std::string_view precision, std::string_view weights, std::string_view read,
                       std::string_view made) {
    absl::StrAppendFormat(&text, "%10s %16s %20s", precision, weights, read);
    if (MakesTokens(info)) absl::StrAppendFormat(&text, " %20s", made);
    text += "\n";
  };
  add("precision", "weights", Cat("reads ", forecast.length, " ", rows),
      Cat("makes, after ", forecast.length));
  for (const Prediction& each : forecast.predictions) {
    add(Name(each.precision),
        Cat(each.estimated ? "about " : "", BytesText(static_cast<double>(each.weight_bytes))),
        Cat(RateText(each.read_rows), " ", rows, "/s"), Cat(RateText(each.made_tokens), " tokens/s"));
  }
  return text;
}

Json ForecastJson(const Forecast& forecast) {
  Json predictions = Json::array();
  for (const Prediction& each : forecast.predictions) {
    predictions.push_back(
        {{"precision", std::string(Name(each.precision))},
         {"operations_per_second", forecast.machine.operations[static_cast<int>(each.precision)]},
         {"weight_bytes", each.weight_bytes},
         {"weight_bytes_estimated", each.estimated},
         {"rows_read_per_second", each.read_rows},
         {"tokens_made_per_second", each.made_tokens}});
  }
  return {{"threads", forecast.threads},
          {"memory_bytes_per_second", forecast.machine.read_bytes},
          {"length", forecast.length},
          {"predictions", std::move(predictions)}};
}

}  // namespace heed::cli
