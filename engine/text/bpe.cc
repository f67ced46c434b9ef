// Byte pair encoding (Sennrich et al. 2016): a word begins as its characters; of all neighbours that merge,
// those whose merge was learned first do, the leftmost first, until none does. The neighbours wait in a heap
// and the parts are a linked list, so n characters take O(n log n).
#include <array>
#include <optional>
#include <queue>
#include <utility>

#include "engine/base/status.h"
#include "engine/text/byte_fallback.h"
#include "engine/text/token_models.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"

namespace heed {
namespace {

struct Options {
  std::optional<std::string> unknown;
  std::string prefix, suffix;  // of characters within a word, and of the last one
  bool fuse_unknown = false;   // neighbours that are unknown are one
  bool byte_fallback =
      false;  // characters that are unknown are their bytes, "<0x41>", if there are such tokens
  bool ignore_merges = false;  // a word that is a token is that token
};

// The learned merges, in their order.
class Merges {
 public:
  void Add(int32_t left, int32_t right, int32_t merged) {
    ranks_.Set(Key(left, right), static_cast<int32_t>(merged_.size()));
    merged_.push_back(merged);
  }
  // -1: the two do not merge.
  int32_t Rank(int32_t left, int32_t right) const { return ranks_.Find(Key(left, right)); }
  int32_t Merged(int32_t rank) const { return merged_[rank]; }

 private:
  static uint64_t Key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  NumberMap ranks_;
  std::vector<int32_t> merged_;
};

// A part of a word.
struct Part {
  int32_t id = 0;
  int32_t bytes = 0;  // of the word's UTF-8; 0: merged into the part before it
  int32_t previous = -1, next = -1;
};
using Parts = std::vector<Part>;

// Two neighbours that may merge: the part at `at` and its next.
struct Candidate {
  int32_t rank = 0, at = 0;
  bool operator<(const Candidate& other) const {  // the heap's first is the largest
    return rank != other.rank ? rank > other.rank : at > other.at;
  }
};

// Merges all that merges in one word.
class Merger {
 public:
  Merger(const Merges& merges, Parts& parts) : merges_(merges), parts_(parts) {}

  void Run() {
    std::vector<Candidate> candidates;
    for (int32_t at = 0; at + 1 < std::ssize(parts_); ++at) {
      const int32_t rank = merges_.Rank(parts_[at].id, parts_[at + 1].id);
      if (rank >= 0) candidates.push_back({rank, at});
    }
    heap_ = std::priority_queue<Candidate>(std::less<Candidate>(), std::move(candidates));
    while (!heap_.empty()) {
      const Candidate first = heap_.top();
      heap_.pop();
      Merge(first);
    }
  }

 private:
  void Merge(Candidate candidate) {
    Part& left = parts_[candidate.at];
    if (left.bytes == 0 || left.next < 0) return;
    Part& right = parts_[left.next];
    const int32_t merged = merges_.Merged(candidate.rank), rank = merges_.Rank(left.id, right.id);
    if (rank < 0 || merges_.Merged(rank) != merged) return;  // one of them has merged since
    left.id = merged;
    left.bytes += right.bytes;
    left.next = right.next;
    right.bytes = 0;
    if (left.next >= 0) parts_[left.next].previous = candidate.at;
    Consider(left.previous);
    Consider(candidate.at);
  }

  void Consider(int32_t at) {
    if (at < 0 || parts_[at].next < 0) return;
    const int32_t rank = merges_.Rank(parts_[at].id, parts_[parts_[at].next].id);
    if (rank >= 0) heap_.push({rank, at});
  }

  const Merges& merges_;
  Parts& parts_;
  std::priority_queue<Candidate> heap_;
};

// The characters that consecutive bytes of a word belong to.
class Origins {
 public:
  explicit Origins(CharSpan word) : word_(word) {}

  // Those of the next `bytes` bytes, at least one: the first, then the last.
  std::pair<const Char*, const Char*> Take(int32_t bytes) {
    const Char* const first = CharAt(byte_);
    const Char* const last = CharAt(byte_ + bytes - 1);
    byte_ += bytes;
    return {first, last};
  }

 private:
  // Never goes back; beyond the word it is the last.
  const Char* CharAt(int64_t byte) {
    while (at_ + 1 < word_.size() && byte >= begin_ + Utf8Bytes(word_[at_].code)) {
      begin_ += Utf8Bytes(word_[at_].code);
      ++at_;
    }
    return &word_[at_];
  }

  const CharSpan word_;
  size_t at_ = 0;
  int64_t begin_ = 0;  // the first byte of the character at_
  int64_t byte_ = 0;   // taken
};

class Bpe : public TokenModel {
 public:
  Bpe(Trie tokens, Merges merges, const Options& options)
      : tokens_(std::move(tokens)),
        merges_(std::move(merges)),
        options_(options),
        unknown_(options.unknown ? tokens_.Find(ToChars(*options.unknown)) : -1),
        within_(tokens_.Walk(Trie::kRoot, ToChars(options.prefix))),
        suffix_(ToChars(options.suffix)),
        bytes_(FindByteTokens(tokens_)) {}

  absl::Status Tokenize(CharSpan word, Tokens& tokens) const override {
    if (const int32_t whole = options_.ignore_merges ? tokens_.Find(word) : -1; whole >= 0) {
      tokens.push_back({whole, word.front().begin, word.back().end});
      return absl::OkStatus();
    }
    Parts parts;
    parts.reserve(word.size());
    RETURN_IF_ERROR(Begin(word, parts));
    Merger(merges_, parts).Run();
    Origins origins(word);
    for (const Part& part : parts) {
      if (part.bytes == 0) continue;
      const auto [first, last] = origins.Take(part.bytes);
      tokens.push_back({part.id, first->begin, last->end});
    }
    return absl::OkStatus();
  }

 private:
  static void Add(int32_t id, int32_t bytes, Parts& parts) {
    const auto at = static_cast<int32_t>(parts.size());
    if (at > 0) parts.back().next = at;
    parts.push_back({id, bytes, at - 1, -1});
  }

  // The word's characters as parts. An unknown one waits for the next that is known, since those after it may
  // belong to it.
  absl::Status Begin(CharSpan word, Parts& parts) const {
    int32_t waiting = 0;  // bytes of what is unknown
    for (size_t at = 0; at < word.size(); ++at) {
      const int32_t bytes = Utf8Bytes(word[at].code);
      const int32_t id = Find(word[at], at == 0, at + 1 == word.size());
      if (id < 0 && AddBytes(word[at], at == 0, at + 1 == word.size(), parts)) continue;
      if (id < 0 && !options_.unknown) continue;
      if (id < 0 && unknown_ < 0) return NoTokenFor(word.subspan(at, 1), *options_.unknown);
      if (waiting > 0 && (id >= 0 || !options_.fuse_unknown)) Add(unknown_, std::exchange(waiting, 0), parts);
      if (id < 0) waiting += bytes;
      if (id >= 0) Add(id, bytes, parts);
    }
    if (waiting > 0) Add(unknown_, waiting, parts);
    return absl::OkStatus();
  }

  int32_t Find(const Char& c, bool first, bool last) const {
    int32_t node = tokens_.Walk(first ? Trie::kRoot : within_, {&c, 1});
    if (last) node = tokens_.Walk(node, suffix_);
    return tokens_.Number(node);
  }

  // Whether all bytes of the character, as it is spelled here, are tokens.
  bool AddBytes(const Char& c, bool first, bool last, Parts& parts) const {
    if (!options_.byte_fallback) return false;
    std::string spelled = first ? "" : options_.prefix;
    AppendUtf8(c.code, spelled);
    if (last) spelled += options_.suffix;
    for (const char byte : spelled) {
      if (bytes_[static_cast<uint8_t>(byte)] < 0) return false;
    }
    for (const char byte : spelled) Add(bytes_[static_cast<uint8_t>(byte)], 1, parts);
    return true;
  }

  const Trie tokens_;
  const Merges merges_;
  const Options options_;
  const int32_t unknown_;  // -1: there is none
  const int32_t within_;   // the node after the prefix
  const Chars suffix_;
  const std::array<int32_t, 256> bytes_;  // of byte fallback
};

struct Pair {
  std::string left, right;
};

// "a b", or ["a", "b"].
std::optional<Pair> ReadPair(const Json& json) {
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) return std::nullopt;
    return Pair{text.substr(0, space), text.substr(space + 1)};
  }
  if (!json.is_array() || json.size() != 2 || !json[0].is_string() || !json[1].is_string())
    return std::nullopt;
  return Pair{json[0].get<std::string>(), json[1].get<std::string>()};
}

// The tokens of a merge: its two, and what they become.
absl::StatusOr<std::array<int32_t, 3>> FindTokens(const Pair& pair, size_t prefix, const Trie& tokens) {
  if (pair.right.size() < prefix)
    return Invalid(Shown(pair.right), " is shorter than continuing_subword_prefix");
  const std::string merged = pair.left + pair.right.substr(prefix);
  std::array<int32_t, 3> ids = {};
  for (int i = 0; const std::string& token : {pair.left, pair.right, merged}) {
    ids[i] = ValidUtf8(token) ? tokens.Find(ToChars(token)) : -1;
    if (ids[i++] < 0) return Invalid(Shown(token), " is not in the vocabulary");
  }
  return ids;
}

Merges ReadMerges(JsonFields& fields, size_t prefix, const Trie& tokens) {
  Merges merges;
  const Json& list = fields.Raw("merges");
  if (!list.is_array()) fields.Fail("merges is not a list");
  if (!list.is_array()) return merges;
  size_t at = 0;
  for (const Json& item : list) {
    const std::string where = Cat("merges[", at++, "]: ");
    if (item.is_string() && item.get_ref<const std::string&>().starts_with("#version")) continue;
    const std::optional<Pair> pair = ReadPair(item);
    if (!pair) {
      fields.Fail(Cat(where, Shown(item), " is not a pair of tokens"));
      return merges;
    }
    const auto ids = FindTokens(*pair, prefix, tokens);
    if (!ids.ok()) {
      fields.Fail(Cat(where, ids.status().message()));
      return merges;
    }
    merges.Add((*ids)[0], (*ids)[1], (*ids)[2]);
  }
  return merges;
}

}  // namespace

MadeTokenModel NewBpe(JsonFields& fields, Vocabulary& vocabulary) {
  Trie tokens = ReadModelTokens(fields, vocabulary);
  Options options;
  if (fields.Has("unk_token")) options.unknown = fields.String("unk_token", "");
  fields.Ignore("unk_token");
  options.prefix = fields.String("continuing_subword_prefix", "");
  options.suffix = fields.String("end_of_word_suffix", "");
  options.fuse_unknown = fields.Bool("fuse_unk", false);
  options.byte_fallback = fields.Bool("byte_fallback", false);
  options.ignore_merges = fields.Bool("ignore_merges", false);
  if (const double dropout = fields.Number("dropout", 0, 0, 1); dropout > 0)
    fields.Fail(Cat("dropout: ", dropout, " is above 0, and a text must always give the same tokens"));
  Merges merges = ReadMerges(fields, options.prefix.size(), tokens);
  RETURN_IF_ERROR(fields.Finish());
  return std::make_unique<Bpe>(std::move(tokens), std::move(merges), options);
}

}  // namespace heed
