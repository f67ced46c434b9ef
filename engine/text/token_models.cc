#include "engine/text/token_models.h"

#include <utility>

#include "engine/base/status.h"

namespace heed {
namespace {

constexpr size_t kMaxTokenBytes = 4096;

constexpr std::pair<std::string_view, MadeTokenModel (*)(JsonFields&, Vocabulary&)> kModels[] = {
    {"WordLevel", NewWordLevel}, {"WordPiece", NewWordPiece}, {"BPE", NewBpe}, {"Unigram", NewUnigram}};

// Older files do not say it.
std::string TypeOf(JsonFields& fields) {
  if (fields.Has("type")) return fields.String("type", "");
  if (fields.Has("merges")) return "BPE";
  if (fields.Has("max_input_chars_per_word")) return "WordPiece";
  return fields.Raw("vocab").is_array() ? "Unigram" : "WordLevel";
}

}  // namespace

std::string TokenModelType(const Json& json) {
  JsonFields fields(json, "model");
  return TypeOf(fields);
}

MadeTokenModel NewTokenModel(const Json& json, const std::string& where, Vocabulary& vocabulary) {
  JsonFields fields(json, where);
  if (!json.is_object()) return fields.Finish();
  const std::string type = TypeOf(fields);
  for (const auto& [name, make] : kModels) {
    if (type == name) return make(fields, vocabulary);
  }
  fields.Fail(Cat("type ", Shown(type), " is none that Heed reads"));
  return fields.Finish();
}

Trie ReadModelTokens(JsonFields& fields, Vocabulary& vocabulary) {
  Trie trie;
  const Json& listed = fields.Raw("vocab");
  if (!listed.is_object()) fields.Fail("vocab is not an object");
  if (!listed.is_object()) return trie;
  for (const auto& [token, id] : listed.items()) {
    const bool fits = id.is_number_unsigned() && id.get<uint64_t>() <= uint64_t{Vocabulary::kMaxId};
    if (!fits)
      fields.Fail(
          Cat("vocab: ", Shown(token), ": ", Shown(id), " is not an id from 0 to ", Vocabulary::kMaxId));
    if (token.size() > kMaxTokenBytes)
      fields.Fail(Cat("vocab: ", Shown(token), ": ", token.size(), " bytes are above ", kMaxTokenBytes));
    if (!fits || token.size() > kMaxTokenBytes) return trie;
    vocabulary.Add(token, id.get<int64_t>());
    trie.Add(ToChars(token), id.get<int32_t>());
  }
  return trie;
}

absl::Status NoTokenFor(CharSpan word, std::string_view unknown) {
  return Invalid("the tokenizer has no token for ", Shown(ToUtf8(word)), ", and no unknown token ",
                 Shown(unknown));
}

}  // namespace heed
