#include "engine/text/tokenizer_files.h"

#include <set>
#include <string_view>
#include <utility>

#include "engine/base/file.h"
#include "engine/base/status.h"
#include "engine/text/file_converters.h"
#include "engine/text/sentencepiece_model.h"
#include "engine/text/tokenizer_classes.h"
#include "engine/text/tokenizer_draft.h"
#include "engine/text/tokenizer_settings.h"

namespace heed {
namespace {

constexpr char kTokenizer[] = "tokenizer.json";
constexpr char kVocabularyJson[] = "vocab.json";
constexpr char kMerges[] = "merges.txt";
constexpr char kVocabularyText[] = "vocab.txt";
constexpr int64_t kMaxBytes = 64 << 20;
constexpr const char* kSentencePieceFiles[] = {"spiece.model", "sentencepiece.bpe.model", "spm.model",
                                               "tokenizer.model", "sentencepiece.model"};

// A value of an object; null where there is none.
const Json& At(const Json& object, std::string_view key) {
  static const Json null;
  const auto value = object.is_object() ? object.find(key) : object.end();
  return value == object.end() ? null : *value;
}

void ChooseClass(const Json& config, TokenizerSettings& settings) {
  const auto text = [&](std::string_view key) {
    const Json& value = At(config, key);
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  std::string& name = settings.tokenizer_class;
  if (name.empty()) name = WithoutFast(text("tokenizer_class"));
  if (name.empty()) name = TokenizerClassOf(text("model_type"));
  if (const std::string_view kin = TokenizerClassOf(name); !kin.empty()) name = kin;
}

absl::StatusOr<std::optional<std::string>> ReadIfThere(const std::string& folder, const std::string& name) {
  auto text = ReadFile(folder, name, kMaxBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  return *std::move(text);
}

// What the settings say beyond a tokenizer.json: tokens with ids, special tokens of the vocabulary that are
// not looked for in text yet, and that none shall be found there.
void AddWhatItLacks(const TokenizerSettings& settings, Json& json) {
  if (!json.is_object()) return;
  if (settings.Flag("split_special_tokens", false)) json["encode_special_tokens"] = true;
  const Json& vocabulary = At(At(json, "model"), "vocab");
  Json added = At(json, "added_tokens");
  if (added.is_null()) added = Json::array();
  if (!added.is_array()) return;
  std::set<std::string> known;
  for (const Json& token : added) known.insert(CanonicalText(At(token, "content")));
  const auto add = [&](AddedToken token) {
    if (const Json& id = At(vocabulary, token.content); id.is_number_unsigned()) token.id = id.get<int32_t>();
    if (token.id >= 0 && !token.content.empty() && known.insert(CanonicalText(token.content)).second)
      added.push_back(JsonOf(token));
  };
  for (const AddedToken& token : settings.added) add(token);
  for (std::string_view role : kTokenRoles) {
    if (const auto told = settings.special.find(role); told != settings.special.end())
      add(told->second.token);
  }
  for (const AddedToken& token : settings.additional) add(token);
  json["added_tokens"] = std::move(added);
}

absl::StatusOr<std::optional<TokenizerFile>> ReadSentencePiece(const std::string& folder,
                                                               const TokenizerSettings& settings) {
  for (const char* name : kSentencePieceFiles) {
    ASSIGN_OR_RETURN(const auto bytes, ReadIfThere(folder, name));
    if (!bytes) continue;
    ASSIGN_OR_RETURN(const SentencePieceModel model, ReadSentencePieceModel(*bytes, name));
    ASSIGN_OR_RETURN(Json json, ConvertSentencePiece(model, name, settings));
    return TokenizerFile{std::move(json), name};
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::optional<TokenizerFile>> ReadTokenizerJson(const std::string& folder) {
  ASSIGN_OR_RETURN(const auto text, ReadIfThere(folder, kTokenizer));
  if (!text) return std::nullopt;
  ASSIGN_OR_RETURN(Json json, ParseJson(*text, kTokenizer));
  ASSIGN_OR_RETURN(const TokenizerSettings settings, ReadTokenizerSettings(folder));
  AddWhatItLacks(settings, json);
  return TokenizerFile{std::move(json), kTokenizer};
}

absl::StatusOr<std::optional<TokenizerFile>> ReadOtherTokenizerFiles(const std::string& folder,
                                                                     const Json& config) {
  ASSIGN_OR_RETURN(TokenizerSettings settings, ReadTokenizerSettings(folder));
  ChooseClass(config, settings);
  ASSIGN_OR_RETURN(auto pieces, ReadSentencePiece(folder, settings));
  if (pieces) return pieces;
  ASSIGN_OR_RETURN(const auto vocabulary, ReadIfThere(folder, kVocabularyJson));
  ASSIGN_OR_RETURN(const auto merges, ReadIfThere(folder, kMerges));
  if (vocabulary && merges) {
    ASSIGN_OR_RETURN(Json json, ConvertByteBpe(*vocabulary, *merges, settings));
    return TokenizerFile{std::move(json), kVocabularyJson};
  }
  ASSIGN_OR_RETURN(const auto lines, ReadIfThere(folder, kVocabularyText));
  if (!lines) return std::nullopt;
  ASSIGN_OR_RETURN(Json json, ConvertVocabTxt(*lines, settings));
  return TokenizerFile{std::move(json), kVocabularyText};
}

absl::StatusOr<TokenizerFile> ReadSentencePieceFile(const std::string& folder) {
  ASSIGN_OR_RETURN(auto file, ReadSentencePiece(folder, {}));
  if (!file) return absl::NotFoundError("the folder has no model of SentencePiece");
  return *std::move(file);
}

}  // namespace heed
