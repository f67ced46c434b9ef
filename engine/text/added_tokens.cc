#include "engine/text/added_tokens.h"

#include <unordered_set>

#include "engine/base/status.h"
#include "engine/text/unicode.h"

namespace heed {
namespace {

constexpr size_t kMaxBytes = 1024;  // of one token

absl::StatusOr<AddedToken> ReadAddedToken(const Json& json, const std::string& where) {
  JsonFields fields(json, where);
  AddedToken token;
  token.id = static_cast<int32_t>(fields.RequiredInt("id", 0, INT32_MAX));
  token.content = fields.String("content", "");
  token.single_word = fields.Bool("single_word", false);
  token.lstrip = fields.Bool("lstrip", false);
  token.rstrip = fields.Bool("rstrip", false);
  token.special = fields.Bool("special", false);
  token.normalized = fields.Bool("normalized", !token.special);
  if (token.content.empty()) fields.Fail("content is missing or empty");
  if (token.content.size() > kMaxBytes) {
    fields.Fail(Cat("content: ", token.content.size(), " bytes are above ", kMaxBytes));
  }
  RETURN_IF_ERROR(fields.Finish());
  return token;
}

bool StandsAlone(CharSpan text, size_t begin, size_t end) {
  return (begin == 0 || !IsWord(text[begin - 1].code)) && (end == text.size() || !IsWord(text[end].code));
}

}  // namespace

absl::StatusOr<std::vector<AddedToken>> ReadAddedTokens(const Json& list, const std::string& where,
                                                        Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  if (list.is_null()) return tokens;
  if (!list.is_array()) return Invalid(where, " is not a list");
  std::unordered_set<std::string> seen;
  for (const Json& item : list) {
    ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(item, Cat(where, "[", tokens.size(), "]")));
    if (!seen.insert(token.content).second)
      return Invalid(where, ": ", Shown(token.content), " appears twice");
    vocabulary.Add(token.content, token.id);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

absl::Status AddedTokenFinder::Add(const AddedToken& token, const Normalizer* normalizer) {
  Chars pattern = ToChars(token.content);
  if (token.normalized && normalizer != nullptr) RETURN_IF_ERROR(normalizer->Normalize(0, pattern));
  if (pattern.empty()) return Invalid("added token ", Shown(token.content), " is empty after normalization");
  if (indices_.Find(pattern) < 0) indices_.Add(pattern, static_cast<int32_t>(tokens_.size()));
  tokens_.push_back(token);
  return absl::OkStatus();
}

const AddedToken* AddedTokenFinder::LongestAt(CharSpan text, size_t at, size_t* end) const {
  int32_t found = -1;
  for (int32_t node = Trie::kRoot; at < text.size(); ++at) {
    node = indices_.Step(node, text[at].code);
    if (node < 0) break;
    if (indices_.Number(node) < 0) continue;
    found = indices_.Number(node);
    *end = at + 1;
  }
  return found < 0 ? nullptr : &tokens_[found];
}

std::vector<AddedTokenFinder::Part> AddedTokenFinder::Split(CharSpan text) const {
  std::vector<Part> parts;
  size_t done = 0;  // what is before this lies in parts
  for (size_t at = 0; at < text.size() && !tokens_.empty();) {
    size_t begin = at, end = 0;
    const AddedToken* token = LongestAt(text, at, &end);
    at = token == nullptr ? at + 1 : end;
    if (token == nullptr || (token->single_word && !StandsAlone(text, begin, end))) continue;
    while (token->lstrip && begin > done && IsSpace(text[begin - 1].code)) --begin;
    while (token->rstrip && end < text.size() && IsSpace(text[end].code)) ++end;
    if (begin > done) parts.push_back({-1, text.subspan(done, begin - done)});
    parts.push_back({token->id, text.subspan(begin, end - begin)});
    at = done = end;
  }
  if (done < text.size()) parts.push_back({-1, text.subspan(done)});
  return parts;
}

}  // namespace heed
