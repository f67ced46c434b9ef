#include "engine/text/token_models.h"

#include "engine/base/status.h"

namespace heed {
namespace {

// A word is a token, or the unknown token.
class WordLevel : public TokenModel {
 public:
  WordLevel(const Vocabulary& vocabulary, int32_t unknown) : vocabulary_(vocabulary), unknown_(unknown) {}
  void Tokenize(CharSpan word, std::vector<Token>& tokens) const override {
    const int32_t id = vocabulary_.Find(ToUtf8(word));
    tokens.push_back({id < 0 ? unknown_ : id, word.front().begin, word.back().end});
  }

 private:
  const Vocabulary& vocabulary_;
  const int32_t unknown_;
};

}  // namespace

absl::Status ReadModelTokens(const Json& json, const std::string& where, Vocabulary& vocabulary) {
  const Json empty = Json::object();
  const Json& listed = json.is_object() ? json.value("vocab", empty) : empty;
  if (!listed.is_object()) return Invalid(where, ".vocab is not an object");
  for (const auto& [token, id] : listed.items()) {
    if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > INT32_MAX)) {
      return Invalid(where, ".vocab: ", Shown(token), ": ", Shown(id), " is not an id from 0 to ", INT32_MAX);
    }
    vocabulary.Add(token, id.get<int64_t>());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<const TokenModel>> NewTokenModel(const Json& json, const std::string& where,
                                                                const Vocabulary& vocabulary) {
  JsonFields fields(json, where);
  const std::string type = fields.String("type", "");
  if (type != "WordLevel") {
    fields.Fail(Cat("type ", Shown(type), " is none that Heed reads"));
    return fields.Finish();
  }
  fields.Ignore("vocab");
  const std::string unknown = fields.String("unk_token", "<unk>");
  if (vocabulary.Find(unknown) < 0)
    fields.Fail(Cat("unk_token ", Shown(unknown), " is not in the vocabulary"));
  RETURN_IF_ERROR(fields.Finish());
  return std::make_unique<WordLevel>(vocabulary, vocabulary.Find(unknown));
}

}  // namespace heed
