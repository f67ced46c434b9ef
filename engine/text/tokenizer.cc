#include "engine/text/tokenizer.h"

#include <algorithm>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/text/bytes_tokenizer.h"
#include "engine/text/pipeline_tokenizer.h"

namespace heed {
namespace {

constexpr char kTokenizer[] = "tokenizer.json";
constexpr char kConfig[] = "config.json";
constexpr int64_t kMaxTokenizerBytes = 64 << 20;
constexpr int64_t kMaxConfigBytes = 16 << 20;

// Whether config.json says "tokenizer": "bytes". All else in it is the model's.
absl::StatusOr<bool> ConfigSaysBytes(const std::string& folder) {
  const auto text = ReadFile(folder, kConfig, kMaxConfigBytes);
  if (absl::IsNotFound(text.status())) return false;
  if (!text.ok()) return text.status();
  ASSIGN_OR_RETURN(const Json config, ParseJson(*text, kConfig));
  return config.is_object() && config.contains("tokenizer") && config["tokenizer"] == "bytes";
}

}  // namespace

void Tokenizer::MeasureTokens() {
  for (int32_t id = 0; id < vocab_size(); ++id)
    max_token_bytes_ = std::max(max_token_bytes_, std::ssize(TokenBytes(id)));
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> LoadTokenizer(const std::string& folder) {
  const auto text = ReadFile(folder, kTokenizer, kMaxTokenizerBytes);
  if (text.ok()) return NewPipelineTokenizer(*text);
  if (!absl::IsNotFound(text.status())) return text.status();
  ASSIGN_OR_RETURN(const bool bytes, ConfigSaysBytes(folder));
  if (bytes) return NewBytesTokenizer();
  return nullptr;
}

}  // namespace heed
