#include "engine/families/sentence_prompts.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr char kFile[] = "config_sentence_transformers.json";
constexpr int64_t kMostBytes = 1 << 20;
constexpr size_t kMostPromptBytes = 16 << 10;

}  // namespace

absl::StatusOr<SentencePrompts> ReadSentencePrompts(const std::string& folder) {
  SentencePrompts prompts;
  const auto text = ReadFile(folder, kFile, kMostBytes);
  if (absl::IsNotFound(text.status())) return prompts;
  if (!text.ok()) return text.status();
  ASSIGN_OR_RETURN(const Json json, ParseJson(*text, kFile));
  JsonFields fields(json, kFile);
  const Json& list = fields.Raw("prompts");
  if (!list.is_null() && !list.is_object()) fields.Fail("prompts: is not an object");
  if (!fields.Raw("default_prompt_name").is_null())
    prompts.default_name = fields.String("default_prompt_name", "");
  RETURN_IF_ERROR(fields.error());
  for (const auto& [name, prompt] : list.items()) {
    if (!prompt.is_string()) return Invalid(kFile, ": prompts[", Shown(name), "]: is no text");
    const auto& value = prompt.get_ref<const std::string&>();
    if (value.size() > kMostPromptBytes) {
      return Invalid(kFile, ": prompts[", Shown(name), "]: has ", value.size(), " bytes, at most ",
                     kMostPromptBytes, " are possible");
    }
    prompts.by_name.emplace(name, value);
  }
  if (!prompts.default_name.empty() && !prompts.by_name.contains(prompts.default_name))
    return Invalid(kFile, ": default_prompt_name: ", Shown(prompts.default_name), " is none of prompts");
  return prompts;
}

}  // namespace heed
