#include "engine/text/tokenizer_draft.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"
#include "engine/base/status.h"

namespace heed {

std::string TokenizerDraft::Token(std::string_view role) const {
  if (const auto told = settings_.special.find(role); told != settings_.special.end())
    return told->second.token.content;
  const auto usual =
      std::find_if(roles_.begin(), roles_.end(), [&](const Role& r) { return r.name == role; });
  return usual == roles_.end() ? "" : std::string(usual->token);
}

void TokenizerDraft::Define(std::string_view token, int64_t id) {
  ids_.emplace(token, id);
  next_id_ = std::max(next_id_, id + 1);
}

void TokenizerDraft::AddSpecialTokens() {
  std::set<std::string> special;
  for (std::string_view role : kTokenRoles) special.insert(Token(role));
  for (AddedToken token : settings_.added) {
    token.special |= special.contains(token.content);
    Add(std::move(token));
  }
  for (std::string_view role : kTokenRoles) AddRole(role);
  for (const AddedToken& token : settings_.additional) Add(token);
}

void TokenizerDraft::AddRole(std::string_view name) {
  const auto usual =
      std::find_if(roles_.begin(), roles_.end(), [&](const Role& r) { return r.name == name; });
  AddedToken token;
  token.id = -1;
  token.content = Token(name);
  token.special = true;
  token.lstrip = usual != roles_.end() && usual->lstrip;
  const auto told = settings_.special.find(name);
  if (told != settings_.special.end() && !told->second.only_text) token = told->second.token;
  if (told != settings_.special.end() || ids_.contains(token.content)) Add(std::move(token));
}

void TokenizerDraft::Add(AddedToken token) {
  if (token.content.empty() || !looked_for_.insert(token.content).second) return;
  if (!ids_.contains(token.content)) Define(token.content, token.id < 0 ? next_id_ : token.id);
  token.id = static_cast<int32_t>(ids_.at(token.content));
  added_tokens_.push_back(JsonOf(token));
}

uint64_t TokenizerDraft::Id(std::string_view role) {
  const std::string token = Token(role);
  if (const auto found = ids_.find(token); found != ids_.end()) return found->second;
  status_.Update(token.empty()
                     ? Invalid(file_, ": this kind of tokenizer needs a ", role, ", and no file names one")
                     : Invalid(file_, ": the ", role, " ", Shown(token), " is not in the vocabulary"));
  return 0;
}

// "A", "B:1", "cls", "sep:1"
Json TokenizerDraft::Piece(std::string_view word, Json& special_tokens) {
  const size_t colon = word.find(':');
  const int type_id = colon == word.npos ? 0 : word[colon + 1] - '0';
  const std::string name(word.substr(0, colon));
  if (name == "A" || name == "B") return {{"Sequence", {{"id", name}, {"type_id", type_id}}}};
  const std::string role = name + "_token", token = Token(role);
  special_tokens[token] = {{"id", token}, {"ids", Json::array({Id(role)})}, {"tokens", Json::array({token})}};
  return {{"SpecialToken", {{"id", token}, {"type_id", type_id}}}};
}

Json TokenizerDraft::Template(std::string_view single, std::string_view pair) {
  Json json = {{"type", "TemplateProcessing"},
               {"single", Json::array()},
               {"pair", Json::array()},
               {"special_tokens", Json::object()}};
  for (const auto& [key, words] : {std::pair("single", single), std::pair("pair", pair)}) {
    for (const std::string& word : std::vector<std::string>(absl::StrSplit(std::string(words), ' ')))
      json[key].push_back(Piece(word, json["special_tokens"]));
  }
  return json;
}

absl::StatusOr<Json> TokenizerDraft::Finish() {
  if (!status_.ok()) return status_;
  return Json{{"added_tokens", std::move(added_tokens_)},
              {"normalizer", std::move(normalizer)},
              {"pre_tokenizer", std::move(pre_tokenizer)},
              {"post_processor", std::move(post_processor)},
              {"decoder", std::move(decoder)},
              {"model", std::move(model)}};
}

Json JsonOf(const AddedToken& token) {
  return {{"id", token.id},          {"content", token.content}, {"single_word", token.single_word},
          {"lstrip", token.lstrip},  {"rstrip", token.rstrip},   {"normalized", token.normalized},
          {"special", token.special}};
}

}  // namespace heed
