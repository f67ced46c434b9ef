#include "engine/families/rope.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr double kMostFactor = 1e6;
constexpr double kMostTheta = 1e12;

// Every key of the types below: a file may have more of them than its type reads.
constexpr const char* kKnown[] = {"rope_type",        "type",
                                  "rope_theta",       "partial_rotary_factor",
                                  "factor",           "original_max_position_embeddings",
                                  "low_freq_factor",  "high_freq_factor",
                                  "beta_fast",        "beta_slow",
                                  "mscale",           "mscale_all_dim",
                                  "attention_factor", "truncate"};

struct Told {
  const Json& parameters;  // an object, empty if nothing is told; null: these layers are not turned
  std::string key;         // of config.json, for messages
};

// Of a layer type's own dictionary, where there are several.
Told ParametersOf(Checkpoint& checkpoint, std::string_view layer_type) {
  static const auto& nothing = *new Json(Json::object());
  JsonFields& fields = checkpoint.fields();
  const Json& all = fields.Raw("rope_parameters");
  if (!all.is_object()) {
    const Json& scaling = fields.Raw("rope_scaling");
    return {scaling.is_object() ? scaling : nothing, "rope_scaling"};
  }
  const auto of_type = all.find(std::string(layer_type));
  if (of_type != all.end()) return {*of_type, Cat("rope_parameters.", layer_type)};
  if (std::ranges::any_of(all, [](const Json& value) { return value.is_object(); })) {
    fields.Fail(Cat("rope_parameters: there are none of ", layer_type));
    return {nothing, "rope_parameters"};
  }
  return {all, "rope_parameters"};
}

double Factor(JsonFields& rope, std::string_view key) {
  if (!rope.Has(key)) rope.Fail(Cat(key, " is missing"));
  return rope.Number(key, 1, 1e-6, kMostFactor);
}

int64_t OriginalLength(Checkpoint& checkpoint, JsonFields& rope) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (rope.Has("original_max_position_embeddings"))
    return rope.RequiredInt("original_max_position_embeddings", 1, kMost);
  return checkpoint.fields().RequiredInt("max_position_embeddings", 1, kMost);
}

// Of the first files of gte, the same at every length: theta times the factor, and every frequency divided by
// the factor's (2 / dims)-th power.
void ScaleAsNtk(JsonFields& rope, Json& native) {
  const double factor = Factor(rope, "factor");
  native["theta"] = native["theta"].get<double>() * factor;
  native["scaling"] = {{"type", "linear"}, {"factor", std::pow(factor, 2 / native["dims"].get<double>())}};
}

// The native scaling; null: none.
Json Scaling(Checkpoint& checkpoint, JsonFields& rope, const std::string& type) {
  if (type != "linear" && type != "llama3" && type != "yarn") {
    rope.Fail(Cat("rope_type: ", Shown(type), " is not served; default, linear, llama3 and yarn are"));
    return nullptr;
  }
  Json scaling = {{"type", type}, {"factor", Factor(rope, "factor")}};
  if (type == "linear") return scaling;
  scaling["original_max_position_embeddings"] = OriginalLength(checkpoint, rope);
  if (type == "llama3") {
    scaling["low_freq_factor"] = Factor(rope, "low_freq_factor");
    scaling["high_freq_factor"] = Factor(rope, "high_freq_factor");
    return scaling;
  }
  for (const char* key :
       {"beta_fast", "beta_slow", "mscale", "mscale_all_dim", "attention_factor", "truncate"}) {
    if (rope.Has(key)) scaling[key] = rope.Raw(key);
  }
  return scaling;
}

}  // namespace

Json ReadRope(Checkpoint& checkpoint, const RopeDefaults& defaults, int64_t head_dim,
              std::string_view layer_type) {
  JsonFields& fields = checkpoint.fields();
  const Told told = ParametersOf(checkpoint, layer_type);
  if (told.parameters.is_null()) return nullptr;
  JsonFields rope(told.parameters, fields.Name(told.key));
  for (const char* key : kKnown) rope.Ignore(key);
  const double theta = rope.Number(
      "rope_theta", fields.Number(defaults.theta_key, defaults.theta, 1, kMostTheta), 1, kMostTheta);
  const double share =
      rope.Number("partial_rotary_factor", fields.Number(defaults.share_key, defaults.share, 0, 1), 0, 1);
  Json native = {{"theta", theta},
                 {"dims", static_cast<int64_t>(static_cast<double>(head_dim) * share)},
                 {"layout", defaults.interleaved ? "interleaved" : "half"}};
  const std::string type = rope.String("rope_type", rope.String("type", "default"));
  if (type == "ntk" && defaults.ntk) {
    ScaleAsNtk(rope, native);
  } else if (type != "default") {
    const Json scaling = Scaling(checkpoint, rope, type);
    if (!scaling.is_null()) native["scaling"] = scaling;
  }
  fields.Fail(rope.Finish());
  return native;
}

}  // namespace heed
