#include "engine/families/family.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "engine/base/status.h"

namespace heed {

#define FAMILY(model_type, read, about) absl::StatusOr<NativeModel> read(Checkpoint& checkpoint);
#include "engine/families/families.def"
#undef FAMILY

namespace {

// The first of `architectures`.
std::string ArchitectureOf(const Json& config) {
  const auto found = config.find("architectures");
  if (found == config.end() || !found->is_array() || found->empty() || !found->front().is_string()) return "";
  return found->front().get<std::string>();
}

std::string TaskOf(const std::string& architecture) {
  const size_t at = architecture.rfind("For");
  if (at != std::string::npos) return architecture.substr(at + std::size("For") - 1);
  for (const char* task : {"WithLMHeadModel", "LMHeadModel", "ModelWithLMHead", "DoubleHeadsModel",
                           "EncoderModel", "MTModel", "BaseModel"}) {
    if (architecture.ends_with(task)) return task;
  }
  return "Model";
}

int VersionOf(const Json& config) {
  const std::string text = config.value("transformers_version", Json()).is_string()
                               ? config["transformers_version"].get<std::string>()
                               : "";
  int major = 4;
  std::from_chars(text.data(), text.data() + text.size(), major);
  return major;
}

}  // namespace

Checkpoint::Checkpoint(const Json& config, const Weights& weights)
    : config_(config),
      weights_(weights),
      fields_(config, "config.json"),
      task_(TaskOf(ArchitectureOf(config))),
      version_(VersionOf(config)) {}

absl::Status Checkpoint::UnknownTask(std::initializer_list<std::string_view> known) const {
  std::string list;
  for (const std::string_view task : known) list += Cat(list.empty() ? "" : ", ", task);
  return Invalid("config.json: architectures: ", Shown(ArchitectureOf(config_)), ": of this family ", list,
                 " are served");
}

std::string Checkpoint::Prefix(const std::string& base) const {
  const auto from = weights_.tensors().lower_bound(base);
  return from != weights_.tensors().end() && from->first.starts_with(base) ? base : "";
}

void Checkpoint::Require(std::string_view key, const Json& value) {
  const Json& given = fields_.Raw(key);
  if (!given.is_null() && given != value)
    fields_.Fail(Cat(key, ": ", Shown(given), " is not served; ", Shown(value), " is"));
}

const std::vector<FamilyEntry>& Families() {
#define FAMILY(model_type, read, about) {model_type, read, about},
  static const auto& families = *new std::vector<FamilyEntry>{
#include "engine/families/families.def"
  };
#undef FAMILY
  return families;
}

absl::StatusOr<NativeModel> ReadCheckpoint(const Json& config, const Weights& weights) {
  const auto type = config.find("model_type");
  if (type == config.end() || !type->is_string()) return Invalid("config.json: model_type is missing");
  const auto family = std::ranges::find(Families(), type->get<std::string>(), &FamilyEntry::model_type);
  if (family == Families().end()) {
    std::string known;
    for (const FamilyEntry& entry : Families()) known += Cat(known.empty() ? "" : ", ", entry.model_type);
    return Invalid("config.json: model_type ", Shown(*type), " is not served; ", known, " are");
  }
  Checkpoint checkpoint(config, weights);
  ASSIGN_OR_RETURN(NativeModel model, family->read(checkpoint));
  RETURN_IF_ERROR(checkpoint.fields().error());
  return model;
}

}  // namespace heed
