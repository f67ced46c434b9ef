#include <algorithm>
#include <unordered_map>

#include "engine/base/status.h"
#include "engine/text/sentencepiece_tokens.h"
#include "engine/text/tokenizer.h"

namespace heed {
namespace {

constexpr size_t kMaxMerges = 4'000'000;

struct Merge {
  int32_t left, right;
  int32_t left_characters, right_characters;
  double score;
};

using Ids = std::unordered_map<std::string_view, int32_t>;

// Every way to cut the token into two tokens.
void AddMerges(const ScoredToken& token, const Ids& ids, std::vector<Merge>& merges) {
  const std::string_view text = token.text;
  const auto characters = static_cast<int32_t>(CodePoints(text));
  const ptrdiff_t first = std::ssize(merges);
  int32_t before = 0;
  for (size_t at = 1; at < text.size(); ++at) {
    if ((text[at] & 0xc0) == 0x80) continue;  // within a character
    ++before;
    const auto left = ids.find(text.substr(0, at));
    if (left == ids.end()) continue;
    const auto right = ids.find(text.substr(at));
    if (right == ids.end()) continue;
    merges.push_back({left->second, right->second, before, characters - before, token.score});
  }
  std::sort(merges.begin() + first, merges.end(), [](const Merge& a, const Merge& b) {
    return std::pair(a.left, a.right) < std::pair(b.left, b.right);
  });
}

}  // namespace

absl::StatusOr<Json> MergesOf(const ScoredTokens& tokens, const std::string& file) {
  Ids ids;
  for (size_t id = 0; id < tokens.list.size(); ++id) {
    if (tokens.list[id].InText()) ids.emplace(tokens.list[id].text, static_cast<int32_t>(id));
  }
  std::vector<Merge> merges;
  for (const ScoredToken& token : tokens.list) {
    if (token.InText()) AddMerges(token, ids, merges);
    if (merges.size() > kMaxMerges)
      return Invalid(file, ": its pieces make more than ", kMaxMerges, " merges");
  }
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.left_characters != b.left_characters) return a.left_characters > b.left_characters;
    return a.right_characters > b.right_characters;
  });
  Json json = Json::array();
  json.get_ref<Json::array_t&>().reserve(merges.size());
  for (const Merge& merge : merges) {
    Json& pair = json.emplace_back(Json::array());
    pair.push_back(tokens.list[merge.left].text);
    pair.push_back(tokens.list[merge.right].text);
  }
  return json;
}

}  // namespace heed
