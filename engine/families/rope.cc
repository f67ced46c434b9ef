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
                                  "attention_factor", "truncate",
                                  "short_factor",     "long_factor",
                                  "short_mscale",     "long_mscale"};

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

// "su" is what the first files with it called longrope.
std::string TypeOf(JsonFields& rope) {
  const std::string type = rope.String("rope_type", rope.String("type", "default"));
  return type == "su" ? "longrope" : type;
}

int64_t OriginalLength(Checkpoint& checkpoint, JsonFields& rope) {
  constexpr int64_t kMost = int64_t{1} << 31;
  constexpr const char* kKey = "original_max_position_embeddings";
  if (rope.Has(kKey)) return rope.RequiredInt(kKey, 1, kMost);
  // That of a longrope may stand beside it.
  if (TypeOf(rope) == "longrope" && checkpoint.fields().Has(kKey))
    return checkpoint.fields().RequiredInt(kKey, 1, kMost);
  return checkpoint.fields().RequiredInt("max_position_embeddings", 1, kMost);
}

// Of the first files of gte, the same at every length: theta times the factor, and every frequency divided by
// the factor's (2 / dims)-th power.
void ScaleAsNtk(JsonFields& rope, Json& native) {
  const double factor = Factor(rope, "factor");
  native["theta"] = native["theta"].get<double>() * factor;
  native["scaling"] = {{"type", "linear"}, {"factor", std::pow(factor, 2 / native["dims"].get<double>())}};
}

// Of texts within the original length.
Json ScalingWithin(Checkpoint& checkpoint, JsonFields& rope, const std::string& type) {
  if (type == "dynamic") {
    if (rope.Has("alpha")) rope.Fail("alpha is not served");
    return nullptr;
  }
  Json scaling = {{"type", type}, {"factors", rope.Raw("short_factor")}};
  const auto original = static_cast<double>(OriginalLength(checkpoint, rope));
  const double length = checkpoint.fields().Number("max_position_embeddings", original, 1, 1e12);
  const double longer = length / original;
  const double factor = longer <= 1 ? 1 : std::sqrt(1 + std::log(longer) / std::log(original));
  const char* const key = rope.Has("short_mscale") ? "short_mscale" : "attention_factor";
  scaling["attention_factor"] = rope.Number(key, factor, 1e-6, kMostFactor);
  return scaling;
}

// The native scaling; null: none.
Json Scaling(Checkpoint& checkpoint, JsonFields& rope, const std::string& type) {
  if (type == "proportional")
    return {{"type", type}, {"share", rope.Number("partial_rotary_factor", 1, 0, 1)}};
  if (type != "linear" && type != "llama3" && type != "yarn") {
    rope.Fail(Cat("rope_type: ", Shown(type),
                  " is not served; default, linear, llama3, yarn and proportional are"));
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

int64_t LongestTurned(Checkpoint& checkpoint) {
  const Told told = ParametersOf(checkpoint, "full_attention");
  if (!told.parameters.is_object()) return 0;
  JsonFields rope(told.parameters, checkpoint.fields().Name(told.key));
  const std::string type = TypeOf(rope);
  return type == "dynamic" || type == "longrope" ? OriginalLength(checkpoint, rope) : 0;
}

Json ReadPositionScale(Checkpoint& checkpoint) {
  const Told told = ParametersOf(checkpoint, "full_attention");
  if (!told.parameters.is_object()) return nullptr;
  JsonFields rope(told.parameters, checkpoint.fields().Name(told.key));
  if (!rope.Has("llama_4_scaling_beta")) return nullptr;
  const Json scale = {{"beta", rope.Number("llama_4_scaling_beta", 0, 0, 1e3)},
                      {"length", OriginalLength(checkpoint, rope)}};
  checkpoint.fields().Fail(rope.error());
  return scale;
}

Json ReadRope(Checkpoint& checkpoint, const RopeDefaults& defaults, int64_t head_dim,
              std::string_view layer_type) {
  JsonFields& fields = checkpoint.fields();
  const Told told = ParametersOf(checkpoint, layer_type);
  if (told.parameters.is_null()) return nullptr;
  JsonFields rope(told.parameters, fields.Name(told.key));
  for (const char* key : kKnown) rope.Ignore(key);
  if (defaults.position_scale) rope.Ignore("llama_4_scaling_beta");
  const double theta = rope.Number(
      "rope_theta", fields.Number(defaults.theta_key, defaults.theta, 1, kMostTheta), 1, kMostTheta);
  const double share =
      rope.Number("partial_rotary_factor", fields.Number(defaults.share_key, defaults.share, 0, 1), 0, 1);
  Json native = {{"theta", theta},
                 {"dims", static_cast<int64_t>(static_cast<double>(head_dim) * share)},
                 {"layout", defaults.interleaved ? "interleaved" : "half"}};
  const std::string type = TypeOf(rope);
  const bool by_length = type == "dynamic" || type == "longrope";
  if (type == "ntk" && defaults.ntk) {
    ScaleAsNtk(rope, native);
  } else if (by_length && defaults.within_original) {
    const Json scaling = ScalingWithin(checkpoint, rope, type);
    if (!scaling.is_null()) native["scaling"] = scaling;
  } else if (type != "default") {
    const Json scaling = Scaling(checkpoint, rope, type);
    if (!scaling.is_null()) native["scaling"] = scaling;
    if (type == "proportional") native["dims"] = head_dim;
  }
  fields.Fail(rope.Finish());
  return native;
}

}  // namespace heed
