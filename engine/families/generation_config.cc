#include "engine/families/generation_config.h"

#include "engine/base/file.h"
#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr char kFile[] = "generation_config.json";
constexpr int64_t kMostBytes = 1 << 20;

}  // namespace

absl::Status TakeGenerationConfig(const std::string& folder, NativeModel& model) {
  if (!model.tensors) return absl::OkStatus();  // the native format says all in config.json
  const auto text = ReadFile(folder, kFile, kMostBytes);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  if (!text.ok()) return text.status();
  ASSIGN_OR_RETURN(const Json json, ParseJson(*text, kFile));
  if (!json.is_object()) return Invalid(kFile, " is not an object");
  JsonFields fields(json, kFile);
  TakeTokenIds(fields, model.config.value("vocab_size", int64_t{0}), model.config);
  return fields.error();
}

}  // namespace heed
