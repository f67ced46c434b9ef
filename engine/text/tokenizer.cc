#include "engine/text/tokenizer.h"

#include <algorithm>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/text/bytes_tokenizer.h"
#include "engine/text/pipeline_tokenizer.h"
#include "engine/text/tokenizer_files.h"

namespace heed {
namespace {

constexpr char kConfig[] = "config.json";
constexpr int64_t kMaxConfigBytes = 16 << 20;

// config.json, most of which is the model's; null if there is none.
absl::StatusOr<Json> ReadConfig(const std::string& folder) {
  const auto text = ReadFile(folder, kConfig, kMaxConfigBytes);
  if (absl::IsNotFound(text.status())) return Json();
  if (!text.ok()) return text.status();
  return ParseJson(*text, kConfig);
}

}  // namespace

void Tokenizer::MeasureTokens() {
  for (int32_t id = 0; id < vocab_size(); ++id)
    max_token_bytes_ = std::max(max_token_bytes_, std::ssize(TokenBytes(id)));
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> LoadTokenizer(const std::string& folder) {
  ASSIGN_OR_RETURN(std::optional<TokenizerFile> file, ReadTokenizerJson(folder));
  if (!file) {
    ASSIGN_OR_RETURN(const Json config, ReadConfig(folder));
    if (config.is_object() && config.contains("tokenizer") && config["tokenizer"] == "bytes")
      return NewBytesTokenizer();
    ASSIGN_OR_RETURN(file, ReadOtherTokenizerFiles(folder, config));
  }
  if (!file) return nullptr;
  return NewPipelineTokenizer(file->json, file->name);
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> LoadSentencePiece(const std::string& folder) {
  ASSIGN_OR_RETURN(const TokenizerFile file, ReadSentencePieceFile(folder));
  return NewPipelineTokenizer(file.json, file.name);
}

}  // namespace heed
