// Unigram (Kudo 2018): every token has a score, and a word is cut where the sum of its tokens' scores is
// largest (Viterbi). A character that is no token scores less than any; unknown ones that meet are one token.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "engine/text/byte_fallback.h"
#include "engine/text/token_models.h"

namespace heed {
namespace {

constexpr double kUnknownPenalty = 10;  // below the lowest score
constexpr size_t kMaxPieceBytes = 4096;

struct Pieces {
  Trie trie;
  std::vector<double> scores;  // by id
  std::vector<bool> unused;    // by id: text never becomes it
  double unknown_score = 0;
};

struct Options {
  std::optional<int32_t> unknown;
  bool byte_fallback = false;
};

class Unigram : public TokenModel {
 public:
  Unigram(Pieces pieces, const Options& options)
      : pieces_(std::move(pieces)), options_(options), bytes_(FindByteTokens(pieces_.trie)) {}

  absl::Status Tokenize(CharSpan word, Tokens& tokens) const override {
    const std::vector<Node> best = BestPaths(word);
    std::vector<Node> path;  // from the end; of each, where it begins and which token it is
    for (size_t end = word.size(); end > 0; end = best[end].begin) path.push_back(best[end]);
    std::reverse(path.begin(), path.end());
    for (size_t i = 0; i < path.size();) {
      const size_t begin = path[i].begin;
      const bool unknown = path[i].id == Unknown();
      size_t next = i + 1;
      while (unknown && next < path.size() && path[next].id == Unknown()) ++next;
      const CharSpan piece =
          word.subspan(begin, (next < path.size() ? path[next].begin : word.size()) - begin);
      if (unknown) RETURN_IF_ERROR(AddUnknown(piece, tokens));
      if (!unknown) tokens.push_back({path[i].id, piece.front().begin, piece.back().end});
      i = next;
    }
    return absl::OkStatus();
  }

 private:
  // The best way to where it stands: its last token, where that begins, and the score of all.
  struct Node {
    double score = 0;
    int32_t id = 0;
    int32_t begin = -1;  // -1: nothing ends here
  };

  int32_t Unknown() const { return options_.unknown.value_or(-1); }
  int32_t Used(int32_t id) const { return id >= 0 && pieces_.unused[id] ? -1 : id; }

  std::vector<Node> BestPaths(CharSpan word) const {
    std::vector<Node> best(word.size() + 1);
    for (size_t begin = 0; begin < word.size(); ++begin) {
      const auto reach = [&](size_t end, double score, int32_t id) {
        const double sum = best[begin].score + score;
        if (best[end].begin < 0 || sum > best[end].score) best[end] = {sum, id, static_cast<int32_t>(begin)};
      };
      bool alone = false;  // the character is a token
      int32_t node = Trie::kRoot;
      for (size_t end = begin; end < word.size() && (node = pieces_.trie.Step(node, word[end].code)) >= 0;
           ++end) {
        const int32_t id = Used(pieces_.trie.Number(node));
        if (id >= 0) reach(end + 1, pieces_.scores[id], id);
        alone |= id >= 0 && end == begin;
      }
      if (!alone) reach(begin + 1, pieces_.unknown_score, Unknown());
    }
    return best;
  }

  // A token that is spelled so, else its bytes, else the unknown token.
  absl::Status AddUnknown(CharSpan piece, Tokens& tokens) const {
    const int32_t begin = piece.front().begin, end = piece.back().end;
    const int32_t known = Used(pieces_.trie.Find(piece));
    if (known >= 0) {
      tokens.push_back({known, begin, end});
      return absl::OkStatus();
    }
    const std::string text = options_.byte_fallback ? ToUtf8(piece) : "";
    const auto is_token = [&](char byte) { return bytes_[static_cast<uint8_t>(byte)] >= 0; };
    if (!text.empty() && std::all_of(text.begin(), text.end(), is_token)) {
      for (const char byte : text) tokens.push_back({bytes_[static_cast<uint8_t>(byte)], begin, end});
      return absl::OkStatus();
    }
    if (!options_.unknown) return NoTokenFor(piece, "");
    tokens.push_back({*options_.unknown, begin, end});
    return absl::OkStatus();
  }

  const Pieces pieces_;
  const Options options_;
  const std::array<int32_t, 256> bytes_;  // of byte fallback
};

// The field `vocab`: a list of tokens with their scores; an id is the place in it.
Pieces ReadPieces(JsonFields& fields, Vocabulary& vocabulary) {
  Pieces pieces;
  const Json& list = fields.Raw("vocab");
  if (!list.is_array()) fields.Fail("vocab is not a list");
  if (!list.is_array()) return pieces;
  double lowest = std::numeric_limits<double>::infinity();
  for (const Json& item : list) {
    const auto id = static_cast<int32_t>(pieces.scores.size());
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_number()) {
      fields.Fail(Cat("vocab[", id, "]: ", Shown(item), " is not a token and its score"));
      return pieces;
    }
    const auto& piece = item[0].get_ref<const std::string&>();
    if (piece.size() > kMaxPieceBytes || id > Vocabulary::kMaxId) {
      fields.Fail(Cat("vocab[", id, "]: ", piece.size(), " bytes or the id are above ", kMaxPieceBytes,
                      " or ", Vocabulary::kMaxId));
      return pieces;
    }
    vocabulary.AddAgain(piece, id);
    pieces.trie.Add(ToChars(piece), id);
    pieces.scores.push_back(item[1].get<double>());
    lowest = std::min(lowest, pieces.scores.back());
  }
  pieces.unknown_score = lowest - kUnknownPenalty;
  return pieces;
}

// The field `unused_ids`, which no tokenizer.json has: of what was made from other files.
void ReadUnused(JsonFields& fields, Pieces& pieces) {
  const int64_t count = std::ssize(pieces.scores);
  pieces.unused.resize(count);
  for (const int64_t id : fields.Ints("unused_ids", 0, count, 0, count - 1)) pieces.unused[id] = true;
}

}  // namespace

MadeTokenModel NewUnigram(JsonFields& fields, Vocabulary& vocabulary) {
  Pieces pieces = ReadPieces(fields, vocabulary);
  ReadUnused(fields, pieces);
  Options options;
  if (fields.Has("unk_id"))
    options.unknown = static_cast<int32_t>(fields.Int("unk_id", 0, 0, std::ssize(pieces.scores) - 1));
  fields.Ignore("unk_id");
  options.byte_fallback = fields.Bool("byte_fallback", false);
  RETURN_IF_ERROR(fields.Finish());
  return std::make_unique<Unigram>(std::move(pieces), options);
}

}  // namespace heed
