// heed inspect: loads a folder as the server does, and says what the model is, holds and costs.
#include "client/cli/command.h"
#include "client/cli/description.h"
#include "server/api/models.h"
#include "server/registry.h"

namespace heed::cli {

int Inspect(Arguments& arguments, Terminal& terminal) {
  const Precision best = Supported(Precision::kBf16);
  Precision precision = best;
  bool json = false;
  arguments.Choice(
      "precision", &precision, "auto, f32, bf16 or int8: what the model computes in",
      {{"auto", best}, {"f32", Precision::kF32}, {"bf16", Precision::kBf16}, {"int8", Precision::kInt8}});
  arguments.Flag("json", &json, "as protobuf's JSON");
  if (std::optional<int> ended = arguments.Parse(terminal, 1)) return *ended;
  if (arguments.texts().empty()) return arguments.Wrong(terminal, "name the model's folder");

  const std::string& folder = arguments.texts()[0];
  ServedModel model;
  model.spec = {.name = folder, .version = "", .folder = folder, .load = {.precision = precision}};
  absl::StatusOr<LoadedModel> loaded = LoadFromFolder(model.spec);
  if (!loaded.ok()) return Fail(terminal, Invalid(folder, ": ", loaded.status().message()));
  model.loaded = *std::move(loaded);
  const Registry::Entry entry{.spec = model.spec, .state = ModelState::kReady, .model = &model};
  const v1::ModelDescription description = heed::Describe(entry, config::v1::LimitsConfig());
  terminal.out << (json ? ToJson(description) + "\n" : DescriptionText(description));
  return Finish(terminal, kDone);
}

}  // namespace heed::cli
