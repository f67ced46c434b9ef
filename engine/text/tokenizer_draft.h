// A tokenizer.json in the making, for those who read other files: they give the model and the stages; the
// special tokens are put together here, from the files' settings and the kind's usual ones.
#ifndef HEED_ENGINE_TEXT_TOKENIZER_DRAFT_H_
#define HEED_ENGINE_TEXT_TOKENIZER_DRAFT_H_

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/text/added_tokens.h"
#include "engine/text/tokenizer_settings.h"

namespace heed {

// What a kind of tokenizer calls a special token where no file says otherwise.
struct Role {
  std::string_view name;  // of kTokenRoles
  std::string_view token;
  bool lstrip = false;  // takes the space before it: where files tell no more of the token than its text
};

class TokenizerDraft {
 public:
  // `file` begins messages: "vocab.txt". All must outlive this.
  TokenizerDraft(std::string file, const TokenizerSettings& settings, std::span<const Role> roles)
      : file_(std::move(file)), settings_(settings), roles_(roles) {}

  // As in tokenizer.json; null where there is none.
  Json model, normalizer, pre_tokenizer, post_processor, decoder;

  // The text of a role's token; empty where there is none.
  std::string Token(std::string_view role) const;
  // Tells a token of the model.
  void Define(std::string_view token, int64_t id);
  // To be called when all of the model's tokens are told: the tokens of the settings, and the kind's usual
  // ones that the model has, are looked for in text. A token without an id gets the next.
  void AddSpecialTokens();
  // One more, unless there is one of this text. Of an id of -1: the model's, else the next.
  void Add(AddedToken token);

  // The id of a role's token. Where there is none, Finish() says so.
  uint64_t Id(std::string_view role);
  // The post-processor of templates such as "cls A sep" and "cls A sep B:1 sep:1": texts, roles, and types
  // other than 0.
  Json Template(std::string_view single, std::string_view pair);

  absl::StatusOr<Json> Finish();

 private:
  Json Piece(std::string_view word, Json& special_tokens);
  void AddRole(std::string_view name);

  const std::string file_;
  const TokenizerSettings& settings_;
  const std::span<const Role> roles_;
  std::unordered_map<std::string, int64_t> ids_;
  int64_t next_id_ = 0;
  std::set<std::string> looked_for_;
  Json added_tokens_ = Json::array();
  absl::Status status_;
};

// Of an added token, as in tokenizer.json.
Json JsonOf(const AddedToken& token);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_TOKENIZER_DRAFT_H_
