#include "engine/text/post_processors.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/status.h"
#include "engine/text/byte_level.h"
#include "engine/text/chars.h"

namespace heed {
namespace {

constexpr int64_t kMaxTypeId = 255;

// `text`: as Encoding has it.
void Append(const Tokens& tokens, int32_t type_id, int8_t text, Encoding& encoding) {
  for (const Token& token : tokens) {
    encoding.ids.push_back(token.id);
    encoding.type_ids.push_back(type_id);
    encoding.offsets.emplace_back(token.begin, token.end);
    encoding.texts.push_back(text);
  }
}

std::pair<int32_t, int32_t> SpacesAtEnds(CharSpan spelling) {
  const auto solid = [](const Char& c) { return !IsSpaceOrItsByte(c.code); };
  const auto begin = std::find_if(spelling.begin(), spelling.end(), solid);
  const auto end = std::find_if(spelling.rbegin(), spelling.rend(), solid);
  return {static_cast<int32_t>(begin - spelling.begin()), static_cast<int32_t>(end - spelling.rbegin())};
}

using SpecialIds = std::map<std::string, std::vector<int32_t>>;

absl::StatusOr<int32_t> ReadId(const Json& json, std::string_view where, const Vocabulary& vocabulary) {
  if (json.is_number_unsigned() && json.get<uint64_t>() < static_cast<uint64_t>(vocabulary.size()))
    return json.get<int32_t>();
  return Invalid(where, ": ", Shown(json), " is not an id below ", vocabulary.size());
}

// The map `special_tokens`: the name that templates use, and the ids that it stands for.
absl::StatusOr<SpecialIds> ReadSpecialTokens(const Json& json, const std::string& where,
                                             const Vocabulary& vocabulary) {
  SpecialIds special;
  if (json.is_null()) return special;
  if (!json.is_object()) return Invalid(where, " is not an object");
  for (const auto& [name, entry] : json.items()) {
    JsonFields fields(entry, Cat(where, "[", Shown(name), "]"));
    fields.Ignore("id");
    fields.Ignore("tokens");
    const Json& ids = fields.Raw("ids");
    if (!ids.is_array() || ids.empty()) fields.Fail("ids is not a list of ids");
    RETURN_IF_ERROR(fields.Finish());
    for (const Json& item : ids) {
      ASSIGN_OR_RETURN(const int32_t id, ReadId(item, fields.where() + ".ids", vocabulary));
      special[name].push_back(id);
    }
  }
  return special;
}

absl::StatusOr<Piece> ReadPiece(const Json& json, const std::string& where, const SpecialIds& special) {
  JsonFields outer(json, where);
  const bool is_text = outer.Has("Sequence");
  const Json& inner = outer.Raw(is_text ? "Sequence" : "SpecialToken");
  RETURN_IF_ERROR(outer.Finish());
  JsonFields fields(inner, Cat(where, is_text ? ".Sequence" : ".SpecialToken"));
  Piece piece{Piece::kSpecial, static_cast<int32_t>(fields.Int("type_id", 0, 0, kMaxTypeId))};
  if (is_text) {
    piece.kind = fields.Choice("id", {"A", "B"}) == "A" ? Piece::kFirst : Piece::kSecond;
  } else if (const auto named = special.find(fields.String("id", "")); named != special.end()) {
    piece.ids = named->second;
  } else {
    fields.Fail(Cat("special token ", Shown(fields.Raw("id")), " is not in special_tokens"));
  }
  RETURN_IF_ERROR(fields.Finish());
  return piece;
}

// Each text must stand in its template exactly once.
absl::StatusOr<Template> ReadTemplate(const Json& json, const std::string& where, int texts,
                                      const SpecialIds& special) {
  if (!json.is_array()) return Invalid(where, " is not a list");
  Template pieces;
  for (const Json& item : json) {
    ASSIGN_OR_RETURN(Piece piece, ReadPiece(item, Cat(where, "[", pieces.size(), "]"), special));
    pieces.push_back(std::move(piece));
  }
  auto count = [&](Piece::Kind kind) {
    return std::count_if(pieces.begin(), pieces.end(),
                         [&](const Piece& piece) { return piece.kind == kind; });
  };
  if (count(Piece::kFirst) != 1 || count(Piece::kSecond) != texts - 1) {
    return Invalid(where, " does not hold ", texts == 1 ? "A once and no B" : "A and B once each");
  }
  return pieces;
}

using Read = absl::StatusOr<PostProcessing>;

Read ReadTemplateProcessing(JsonFields& fields, const Vocabulary& vocabulary) {
  const Json& single = fields.Raw("single");
  const Json& pair = fields.Raw("pair");
  const Json& tokens = fields.Raw("special_tokens");
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(const SpecialIds special,
                   ReadSpecialTokens(tokens, fields.where() + ".special_tokens", vocabulary));
  PostProcessing read{.joins = true};
  ASSIGN_OR_RETURN(read.single, ReadTemplate(single, fields.where() + ".single", 1, special));
  ASSIGN_OR_RETURN(read.pair, ReadTemplate(pair, fields.where() + ".pair", 2, special));
  return read;
}

// A field ["[SEP]", 102].
absl::StatusOr<Piece> ReadSpecialPair(JsonFields& fields, std::string_view key,
                                      const Vocabulary& vocabulary) {
  const Json& json = fields.Raw(key);
  if (!json.is_array() || json.size() != 2 || !json[0].is_string())
    return Invalid(fields.Name(key), " is not a token and its id");
  ASSIGN_OR_RETURN(const int32_t id, ReadId(json[1], fields.Name(key), vocabulary));
  return Piece{Piece::kSpecial, 0, {id}};
}

// [CLS] A [SEP] B [SEP], where the latter two are of type 1; RoBERTa has <s> A </s></s> B </s>, all of type
// 0, and trims offsets.
Read ReadBertProcessing(JsonFields& fields, bool roberta, const Vocabulary& vocabulary) {
  PostProcessing read{.joins = true};
  const bool trim = roberta && fields.Bool("trim_offsets", true);
  const bool add_prefix_space = roberta && fields.Bool("add_prefix_space", true);
  if (trim) read.trims.push_back({add_prefix_space});
  ASSIGN_OR_RETURN(const Piece cls, ReadSpecialPair(fields, "cls", vocabulary));
  ASSIGN_OR_RETURN(const Piece sep, ReadSpecialPair(fields, "sep", vocabulary));
  RETURN_IF_ERROR(fields.Finish());
  const Piece first = {Piece::kFirst, 0}, second = {Piece::kSecond, roberta ? 0 : 1};
  Piece last = sep;
  last.type_id = second.type_id;
  read.single = {cls, first, sep};
  read.pair = {cls, first, sep};
  if (roberta) read.pair.push_back(sep);
  read.pair.insert(read.pair.end(), {second, last});
  return read;
}

Read ReadByteLevel(JsonFields& fields) {
  PostProcessing read;
  const bool add_prefix_space = fields.Bool("add_prefix_space", true);
  if (fields.Bool("trim_offsets", true)) read.trims.push_back({add_prefix_space});
  fields.Ignore("use_regex");
  RETURN_IF_ERROR(fields.Finish());
  return read;
}

Read ReadProcessing(const Json& json, const std::string& where, const Vocabulary& vocabulary);

// All trims, and the one that joins.
Read ReadSequence(JsonFields& fields, const Vocabulary& vocabulary) {
  const Json& list = fields.Raw("processors");
  if (!list.is_array()) fields.Fail("processors is not a list");
  RETURN_IF_ERROR(fields.Finish());
  PostProcessing all;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = Cat(fields.where(), ".processors[", i, "]");
    ASSIGN_OR_RETURN(PostProcessing one, ReadProcessing(list[i], where, vocabulary));
    if (all.joins && one.joins) return Invalid(where, ": one before it already adds special tokens");
    one.trims.insert(one.trims.begin(), all.trims.begin(), all.trims.end());
    if (one.joins) {
      all = std::move(one);
    } else {
      all.trims = std::move(one.trims);
    }
  }
  return all;
}

Read ReadProcessing(const Json& json, const std::string& where, const Vocabulary& vocabulary) {
  JsonFields fields(json, where);
  const std::string type = fields.String("type", "");
  if (type == "TemplateProcessing") return ReadTemplateProcessing(fields, vocabulary);
  if (type == "BertProcessing") return ReadBertProcessing(fields, /*roberta=*/false, vocabulary);
  if (type == "RobertaProcessing") return ReadBertProcessing(fields, /*roberta=*/true, vocabulary);
  if (type == "ByteLevel") return ReadByteLevel(fields);
  if (type == "Sequence") return ReadSequence(fields, vocabulary);
  fields.Fail(Cat("type ", Shown(type), " is none that Heed reads"));
  return fields.Finish();
}

}  // namespace

PostProcessor::PostProcessor(PostProcessing processing, const Vocabulary& vocabulary)
    : processing_(std::move(processing)) {
  if (processing_.trims.empty()) return;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    spaces_.push_back(vocabulary.Contains(id) ? SpacesAtEnds(ToChars(vocabulary.Token(id)))
                                              : std::pair<int32_t, int32_t>{0, 0});
  }
}

int64_t PostProcessor::SpecialTokens(bool pair) const {
  int64_t count = 0;
  for (const Piece& piece : pair ? processing_.pair : processing_.single) count += std::ssize(piece.ids);
  return count;
}

Encoding PostProcessor::Join(Tokens first, Tokens* second, bool add_special_tokens) const {
  for (const auto& trim : processing_.trims) {
    TrimOffsets(trim.add_prefix_space, first);
    if (second != nullptr) TrimOffsets(trim.add_prefix_space, *second);
  }
  Encoding encoding;
  for (const Piece& piece : second != nullptr ? processing_.pair : processing_.single) {
    if (piece.kind == Piece::kFirst) Append(first, piece.type_id, 0, encoding);
    if (piece.kind == Piece::kSecond) Append(*second, piece.type_id, 1, encoding);
    if (piece.kind == Piece::kSpecial && add_special_tokens) {
      for (int32_t id : piece.ids) Append({{id, 0, 0}}, piece.type_id, kNoText, encoding);
    }
  }
  return encoding;
}

void PostProcessor::TrimOffsets(bool add_prefix_space, Tokens& tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    Token& token = tokens[i];
    int32_t left = std::max(spaces_[token.id].first, token.left_spaces);
    const int32_t right = std::max(spaces_[token.id].second, token.right_spaces);
    if (add_prefix_space && left == 1 && (i == 0 || token.begin == 0)) left = 0;
    token.begin = std::min(token.begin + left, token.end);
    if (token.end >= right) token.end = std::max(token.end - right, token.begin);
  }
}

absl::StatusOr<std::unique_ptr<const PostProcessor>> NewPostProcessor(const Json& json,
                                                                      const std::string& where,
                                                                      const Vocabulary& vocabulary) {
  PostProcessing processing;
  if (!json.is_null()) {
    ASSIGN_OR_RETURN(processing, ReadProcessing(json, where, vocabulary));
  }
  return std::make_unique<PostProcessor>(std::move(processing), vocabulary);
}

}  // namespace heed
