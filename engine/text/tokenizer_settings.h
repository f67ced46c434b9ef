// What a folder says of its tokenizer beside the tokens themselves: tokenizer_config.json,
// special_tokens_map.json and added_tokens.json, as transformers writes them. Any of them may be missing.
#ifndef HEED_ENGINE_TEXT_TOKENIZER_SETTINGS_H_
#define HEED_ENGINE_TEXT_TOKENIZER_SETTINGS_H_

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/text/added_tokens.h"

namespace heed {

// What a special token may be for, in the order in which transformers numbers those that it adds.
inline constexpr std::array<std::string_view, 7> kTokenRoles = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

struct SpecialToken {
  AddedToken token;        // its id is that of `added`, or -1
  bool only_text = false;  // the files tell no more of it, so its other fields are the tokenizer's usual ones
};

struct TokenizerSettings {
  // transformers' class, without the "Fast" at its end: "BertTokenizer". Empty: no file says.
  std::string tokenizer_class;
  std::string source_language;  // "en_XX"; empty: no file says
  // By role. Without text: the file says that there is none.
  std::map<std::string, SpecialToken, std::less<>> special;
  std::vector<AddedToken> additional;  // special tokens without a role; ids -1
  std::vector<AddedToken> added;       // tokens with ids, in the order of these
  Json config = Json::object();        // tokenizer_config.json, its flags checked

  // Of tokenizer_config.json; where the key is missing or null, the fallback.
  bool Flag(std::string_view key, bool fallback) const;
  int64_t Int(std::string_view key, int64_t fallback) const;
};

absl::StatusOr<TokenizerSettings> ReadTokenizerSettings(const std::string& folder);

// "BertTokenizerFast" is "BertTokenizer", run by other code.
std::string WithoutFast(std::string_view tokenizer_class);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_TOKENIZER_SETTINGS_H_
