// heed inspect: loads a folder as the server does, and says what the model is, holds and costs, and, from
// what this machine's memory and micro-kernels give for half a second, how fast it can be at most.
#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_join.h"
#include "client/cli/command.h"
#include "client/cli/description.h"
#include "client/cli/prediction.h"
#include "engine/weights/weights.h"
#include "server/api/inputs.h"
#include "server/api/models.h"
#include "server/registry.h"

namespace heed::cli {
namespace {

constexpr int64_t kLength = 512;  // of the input that is predicted

// The types of the numbers in its files, those of most first: "BF16", "F16 F32".
absl::StatusOr<std::string> StoredTypes(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Weights> weights, Weights::Load(folder));
  std::map<std::string_view, int64_t> numbers;
  for (const auto& [name, tensor] : weights->tensors()) numbers[Name(tensor.dtype)] += tensor.size();
  std::vector<std::pair<int64_t, std::string_view>> most;
  for (const auto& [type, count] : numbers) most.emplace_back(-count, type);
  std::ranges::sort(most);
  return absl::StrJoin(most, " ", [](std::string* out, const auto& each) { out->append(each.second); });
}

// What of the description depends on the machine.
Forecast ForecastOf(const Model& model) {
  const config::v1::LimitsConfig limits;
  Threads threads(AvailableCpus());
  Forecast forecast{
      .threads = threads.count(),
      .machine = MeasureLimits(threads, /*rounds=*/10, /*seconds=*/0.2),
      .length = std::min({kLength, MaxTokens(model.info(), limits), MaxInputTokens(model.info(), limits)})};
  forecast.predictions = Predict(model, forecast.machine, forecast.length);
  return forecast;
}

}  // namespace

int Inspect(Arguments& arguments, Terminal& terminal) {
  const Precision best = Supported(Precision::kBf16);
  Precision precision = best;
  bool json = false, predict = true;
  arguments.Choice(
      "precision", &precision, "auto, f32, bf16 or int8: what the model computes in",
      {{"auto", best}, {"f32", Precision::kF32}, {"bf16", Precision::kBf16}, {"int8", Precision::kInt8}});
  arguments.Flag("predict", &predict,
                 "measure this machine for half a second, and say how fast the model can be at most in each "
                 "precision; --nopredict: do not");
  arguments.Flag("json", &json, "as protobuf's JSON, a line, and then what is predicted, another");
  if (std::optional<int> ended = arguments.Parse(terminal, 1)) return *ended;
  if (arguments.texts().empty()) return arguments.Wrong(terminal, "name the model's folder");

  const std::string& folder = arguments.texts()[0];
  ServedModel model;
  model.spec = {.name = folder, .version = "", .folder = folder, .load = {.precision = precision}};
  absl::StatusOr<LoadedModel> loaded = LoadFromFolder(model.spec);
  if (!loaded.ok()) return Fail(terminal, Invalid(folder, ": ", loaded.status().message()));
  model.loaded = *std::move(loaded);
  const absl::StatusOr<std::string> stored = StoredTypes(folder);
  if (!stored.ok()) return Fail(terminal, Invalid(folder, ": ", stored.status().message()));
  const Registry::Entry entry{.spec = model.spec, .state = ModelState::kReady, .model = &model};
  const v1::ModelDescription description = heed::Describe(entry, config::v1::LimitsConfig());
  std::optional<Forecast> forecast;
  if (predict) forecast = ForecastOf(model.model());
  if (json) {
    Json rest = forecast ? ForecastJson(*forecast) : Json::object();
    rest["stored_types"] = *stored;
    terminal.out << ToJson(description) << "\n" << CanonicalText(rest) << "\n";
  } else {
    terminal.out << DescriptionText(description) << "\nstored as      " << *stored << "\n"
                 << (forecast ? ForecastText(*forecast, model.info()) : "");
  }
  return Finish(terminal, kDone);
}

}  // namespace heed::cli
