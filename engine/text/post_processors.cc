#include "engine/text/post_processors.h"

#include <algorithm>
#include <map>

#include "engine/base/status.h"

namespace heed {
namespace {

// One place of a template: a text, or special tokens.
struct Piece {
  enum Kind { kFirst, kSecond, kSpecial } kind;
  int32_t type_id = 0;
  std::vector<int32_t> ids = {};  // of special tokens
};
using Template = std::vector<Piece>;

void Append(const Tokens& tokens, int32_t type_id, Encoding& encoding) {
  for (const Token& token : tokens) {
    encoding.ids.push_back(token.id);
    encoding.type_ids.push_back(type_id);
    encoding.offsets.emplace_back(token.begin, token.end);
  }
}

class TemplateProcessing : public PostProcessor {
 public:
  TemplateProcessing(Template single, Template pair) : single_(std::move(single)), pair_(std::move(pair)) {}

  int64_t SpecialTokens(bool pair) const override {
    int64_t count = 0;
    for (const Piece& piece : pair ? pair_ : single_) count += std::ssize(piece.ids);
    return count;
  }

  Encoding Join(const Tokens& first, const Tokens* second, bool add_special_tokens) const override {
    Encoding encoding;
    for (const Piece& piece : second != nullptr ? pair_ : single_) {
      if (piece.kind == Piece::kFirst) Append(first, piece.type_id, encoding);
      if (piece.kind == Piece::kSecond) Append(*second, piece.type_id, encoding);
      if (piece.kind == Piece::kSpecial && add_special_tokens) {
        for (int32_t id : piece.ids) Append({{id, 0, 0}}, piece.type_id, encoding);
      }
    }
    return encoding;
  }

 private:
  const Template single_, pair_;
};

using SpecialIds = std::map<std::string, std::vector<int32_t>>;

// The map `special_tokens`: the name that templates use, and the ids that it stands for.
absl::StatusOr<SpecialIds> ReadSpecialTokens(const Json& json, const std::string& where,
                                             const Vocabulary& vocabulary) {
  if (!json.is_object()) return Invalid(where, " is not an object");
  SpecialIds special;
  for (const auto& [name, entry] : json.items()) {
    JsonFields fields(entry, Cat(where, "[", Shown(name), "]"));
    fields.Ignore("id");
    fields.Ignore("tokens");
    const Json& ids = fields.Raw("ids");
    if (!ids.is_array() || ids.empty()) fields.Fail("ids is not a list of ids");
    RETURN_IF_ERROR(fields.Finish());
    for (const Json& id : ids) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(vocabulary.size())) {
        return Invalid(fields.where(), ".ids: ", Shown(id), " is not an id below ", vocabulary.size());
      }
      special[name].push_back(id.get<int32_t>());
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
  Piece piece{Piece::kSpecial, static_cast<int32_t>(fields.Int("type_id", 0, 0, 1))};
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

}  // namespace

absl::StatusOr<std::unique_ptr<const PostProcessor>> NewPostProcessor(const Json& json,
                                                                      const std::string& where,
                                                                      const Vocabulary& vocabulary) {
  if (json.is_null()) {
    return std::make_unique<TemplateProcessing>(Template{{Piece::kFirst, 0}},
                                                Template{{Piece::kFirst, 0}, {Piece::kSecond, 1}});
  }
  JsonFields fields(json, where);
  const std::string type = fields.String("type", "");
  if (type != "TemplateProcessing") {
    fields.Fail(Cat("type ", Shown(type), " is none that Heed reads"));
    return fields.Finish();
  }
  const Json& single = fields.Raw("single");
  const Json& pair = fields.Raw("pair");
  const Json& tokens = fields.Raw("special_tokens");
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(const SpecialIds special,
                   ReadSpecialTokens(tokens, where + ".special_tokens", vocabulary));
  ASSIGN_OR_RETURN(Template one, ReadTemplate(single, where + ".single", 1, special));
  ASSIGN_OR_RETURN(Template two, ReadTemplate(pair, where + ".pair", 2, special));
  return std::make_unique<TemplateProcessing>(std::move(one), std::move(two));
}

}  // namespace heed
