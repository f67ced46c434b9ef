#include "engine/families/mask_token.h"

#include <optional>
#include <sstream>

#include "engine/base/file.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostBytes = 64 << 20;

bool IsMask(std::string_view token) { return token == "[MASK]" || token == "<mask>"; }

// The file's text; none if there is no such file.
absl::StatusOr<std::optional<std::string>> ReadIfPresent(const std::string& folder, const std::string& name) {
  absl::StatusOr<std::string> text = ReadFile(folder, name, kMostBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  return *std::move(text);
}

// -1: none.
absl::StatusOr<int64_t> OfTokenizer(const std::string& text) {
  ASSIGN_OR_RETURN(const Json tokenizer, ParseJson(text, "tokenizer.json"));
  const Json added = tokenizer.is_object() ? tokenizer.value("added_tokens", Json()) : Json();
  for (const Json& token : added.is_array() ? added : Json::array()) {
    if (!token.is_object() || !token.value("content", Json()).is_string()) continue;
    const Json id = token.value("id", Json());
    if (IsMask(token["content"].get<std::string>()) && id.is_number_unsigned()) return id.get<int64_t>();
  }
  return -1;
}

int64_t OfVocabulary(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  for (int64_t id = 0; std::getline(lines, line); ++id) {
    if (IsMask(line)) return id;
  }
  return -1;
}

}  // namespace

absl::Status TakeMaskToken(const std::string& folder, NativeModel& model) {
  Json& config = model.config;
  if (!model.tensors || config.value("head", "") != "lm" || config.value("architecture", "") != "encoder")
    return absl::OkStatus();
  int64_t id = -1;
  ASSIGN_OR_RETURN(const auto tokenizer, ReadIfPresent(folder, "tokenizer.json"));
  if (tokenizer) {
    ASSIGN_OR_RETURN(id, OfTokenizer(*tokenizer));
  } else {
    ASSIGN_OR_RETURN(const auto vocabulary, ReadIfPresent(folder, "vocab.txt"));
    if (vocabulary) id = OfVocabulary(*vocabulary);
  }
  if (id >= 0 && id < config.value("vocab_size", int64_t{0})) config["mask_token_id"] = id;
  return absl::OkStatus();
}

}  // namespace heed
