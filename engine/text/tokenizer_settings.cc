// Which file counts is as in transformers: where tokenizer_config.json has added_tokens_decoder, that is all,
// else special_tokens_map.json comes before it, and added_tokens.json has the ids.
#include "engine/text/tokenizer_settings.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "engine/base/file.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr char kConfig[] = "tokenizer_config.json";
constexpr char kSpecialTokens[] = "special_tokens_map.json";
constexpr char kAddedTokens[] = "added_tokens.json";
constexpr char kDecoder[] = "added_tokens_decoder";
constexpr char kAdditional[] = "additional_special_tokens";
constexpr int64_t kMaxBytes = 16 << 20;
constexpr std::array kFlags = {
    "do_lower_case",       "strip_accents", "tokenize_chinese_chars", "add_prefix_space", "add_bos_token",
    "add_eos_token",       "legacy",        "keep_accents",           "split_by_punct",   "do_basic_tokenize",
    "split_special_tokens"};

// An empty object where there is no such file.
absl::StatusOr<Json> ReadObject(const std::string& folder, const std::string& name) {
  const auto text = ReadFile(folder, name, kMaxBytes);
  if (absl::IsNotFound(text.status())) return Json::object();
  if (!text.ok()) return text.status();
  ASSIGN_OR_RETURN(Json json, ParseJson(*text, name));
  if (!json.is_object()) return Invalid(name, ": ", Shown(json), " is not an object");
  return json;
}

// A token's text, or an object that also says how it is looked for. `special` where it does not say that.
absl::StatusOr<SpecialToken> ReadToken(const Json& value, const std::string& where, bool special) {
  SpecialToken read;
  AddedToken& token = read.token;
  token.id = -1;
  token.special = special;
  if (value.is_string()) {
    token.content = value.get<std::string>();
    read.only_text = true;
    return read;
  }
  JsonFields fields(value, where);
  fields.Ignore("__type");
  token.content = fields.String("content", "");
  token.single_word = fields.Bool("single_word", false);
  token.lstrip = fields.Bool("lstrip", false);
  token.rstrip = fields.Bool("rstrip", false);
  token.special = fields.Bool("special", special);
  token.normalized = fields.Bool("normalized", !token.special);
  if (token.content.empty()) fields.Fail("content is missing or empty");
  RETURN_IF_ERROR(fields.Finish());
  return read;
}

absl::Status ReadSpecial(const Json& json, const std::string& file, TokenizerSettings& settings) {
  for (std::string_view role : kTokenRoles) {
    const auto value = json.find(role);
    if (value == json.end()) continue;
    SpecialToken token;
    if (!value->is_null()) {
      ASSIGN_OR_RETURN(token, ReadToken(*value, Cat(file, ": ", role), /*special=*/true));
    }
    token.token.special = true;
    settings.special.insert_or_assign(std::string(role), std::move(token));
  }
  const auto list = json.find(kAdditional);
  if (list == json.end() || list->is_null()) return absl::OkStatus();
  if (!list->is_array()) return Invalid(file, ": ", kAdditional, " is not a list");
  settings.additional.clear();
  for (const Json& item : *list) {
    const std::string where = Cat(file, ": ", kAdditional, "[", settings.additional.size(), "]");
    ASSIGN_OR_RETURN(SpecialToken token, ReadToken(item, where, /*special=*/true));
    token.token.special = true;
    settings.additional.push_back(std::move(token.token));
  }
  return absl::OkStatus();
}

// added_tokens_decoder: {"5": {"content": "<mask>", ...}}
absl::Status ReadDecoder(const Json& decoder, TokenizerSettings& settings) {
  if (!decoder.is_object()) return Invalid(kConfig, ": ", kDecoder, " is not an object");
  for (const auto& [key, value] : decoder.items()) {
    const std::string where = Cat(kConfig, ": ", kDecoder, "[", Shown(key), "]");
    int32_t id = 0;
    if (!absl::SimpleAtoi(key, &id) || id < 0) return Invalid(where, " is not an id from 0 to ", INT32_MAX);
    if (!value.is_object()) return Invalid(where, " is not an object");
    ASSIGN_OR_RETURN(SpecialToken token, ReadToken(value, where, /*special=*/false));
    token.token.id = id;
    settings.added.push_back(std::move(token.token));
  }
  return absl::OkStatus();
}

bool IsSpecial(const std::string& text, const TokenizerSettings& settings) {
  const auto same = [&](const AddedToken& token) { return token.content == text; };
  return std::any_of(settings.special.begin(), settings.special.end(),
                     [&](const auto& entry) { return same(entry.second.token); }) ||
         std::any_of(settings.additional.begin(), settings.additional.end(), same);
}

// added_tokens.json: {"<mask>": 5}
absl::Status ReadAdded(const Json& json, TokenizerSettings& settings) {
  JsonFields fields(json, kAddedTokens);
  for (const auto& [text, value] : json.items()) {
    AddedToken token;
    token.id = static_cast<int32_t>(fields.RequiredInt(text, 0, INT32_MAX));
    token.content = text;
    token.special = IsSpecial(text, settings);
    token.normalized = !token.special;
    settings.added.push_back(std::move(token));
  }
  return fields.Finish();
}

// The single values that tokenizers ask for; of what else is there, nothing.
absl::Status CheckConfig(TokenizerSettings& settings) {
  JsonFields fields(settings.config, kConfig);
  for (const auto& [key, value] : settings.config.items()) fields.Ignore(key);
  for (const char* flag : kFlags) fields.Bool(flag, false);
  fields.Int("extra_ids", 0, 0, 10'000);
  fields.Int("offset", 0, 0, 10'000);
  settings.tokenizer_class = WithoutFast(fields.String("tokenizer_class", ""));
  settings.source_language = fields.String("src_lang", "");
  return fields.Finish();
}

}  // namespace

std::string WithoutFast(std::string_view name) {
  constexpr std::string_view kFast = "Fast";
  if (name.ends_with(kFast)) name.remove_suffix(kFast.size());
  return std::string(name);
}

bool TokenizerSettings::Flag(std::string_view key, bool fallback) const {
  const auto value = config.find(key);
  return value == config.end() || !value->is_boolean() ? fallback : value->get<bool>();
}

int64_t TokenizerSettings::Int(std::string_view key, int64_t fallback) const {
  const auto value = config.find(key);
  return value == config.end() || !value->is_number_integer() ? fallback : value->get<int64_t>();
}

absl::StatusOr<TokenizerSettings> ReadTokenizerSettings(const std::string& folder) {
  TokenizerSettings settings;
  ASSIGN_OR_RETURN(settings.config, ReadObject(folder, kConfig));
  RETURN_IF_ERROR(CheckConfig(settings));
  RETURN_IF_ERROR(ReadSpecial(settings.config, kConfig, settings));
  if (const auto decoder = settings.config.find(kDecoder); decoder != settings.config.end()) {
    RETURN_IF_ERROR(ReadDecoder(*decoder, settings));
  } else {
    ASSIGN_OR_RETURN(const Json special, ReadObject(folder, kSpecialTokens));
    RETURN_IF_ERROR(ReadSpecial(special, kSpecialTokens, settings));
    ASSIGN_OR_RETURN(const Json added, ReadObject(folder, kAddedTokens));
    RETURN_IF_ERROR(ReadAdded(added, settings));
  }
  std::sort(settings.added.begin(), settings.added.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return settings;
}

}  // namespace heed
