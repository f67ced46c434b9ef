// Each does to characters and to their origins what Hugging Face's tokenizers does: a change is a list of new
// characters, each of which takes the place of old ones or comes in addition; what comes in addition has its
// predecessor's origin.
#include "engine/text/normalizers.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/text/unicode.h"

namespace heed {
namespace {

// A new character: above 0, it was added; else it stands for one old character and `-change` more after it.
struct Change {
  char32_t code;
  int change;
};

void Apply(const std::vector<Change>& changes, Chars& text) {
  Chars changed;
  changed.reserve(changes.size());
  size_t at = 0;  // of the old characters, the next that is not replaced yet
  for (const Change& c : changes) {
    const Char& origin = text[c.change > 0 && at > 0 ? at - 1 : at];
    changed.push_back({c.code, origin.begin, origin.end});
    if (c.change <= 0) at += 1 - c.change;
  }
  text = std::move(changed);
}

int CombiningClass(char32_t c) {
  return c < 0x300 ? 0 : utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

// Marks that follow a letter, in the order of their classes.
void SortMarks(std::vector<Change>& changes) {
  auto starter = [](const Change& c) { return CombiningClass(c.code) == 0; };
  for (auto begin = changes.begin(); begin != changes.end();) {
    begin = std::find_if_not(begin, changes.end(), starter);
    const auto end = std::find_if(begin, changes.end(), starter);
    std::stable_sort(begin, end, [](const Change& a, const Change& b) {
      return CombiningClass(a.code) < CombiningClass(b.code);
    });
    begin = end;
  }
}

// Canonical decomposition, or compatibility's.
std::vector<Change> Decompose(const Chars& text, bool compatibility) {
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0));
  std::vector<Change> changes;
  changes.reserve(text.size());
  for (const Char& c : text) {
    utf8proc_int32_t parts[32] = {static_cast<utf8proc_int32_t>(c.code)};  // the longest has 18
    const utf8proc_ssize_t count =
        c.code < 0x80 ? 1 : utf8proc_decompose_char(parts[0], parts, std::size(parts), options, nullptr);
    for (utf8proc_ssize_t i = 0; i < count; ++i) changes.push_back({static_cast<char32_t>(parts[i]), i > 0});
  }
  SortMarks(changes);
  return changes;
}

// The character that two compose to; 0 if they do not.
char32_t Composed(char32_t first, char32_t second) {
  if (second < 0x300) return 0;
  utf8proc_int32_t pair[2] = {static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second)};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  return utf8proc_normalize_utf32(pair, 2, options) == 1 ? static_cast<char32_t>(pair[0]) : 0;
}

// Canonical composition (Unicode 3.11, D117): each character joins the last starter unless one between them
// blocks it.
std::vector<Change> Compose(const std::vector<Change>& decomposed) {
  std::vector<Change> composed;
  composed.reserve(decomposed.size());
  ptrdiff_t starter = -1;
  int blocking = -1;  // the class of the last mark after the starter that did not join
  for (const Change& c : decomposed) {
    const int combining = CombiningClass(c.code);
    const char32_t joined =
        starter >= 0 && blocking < combining ? Composed(composed[starter].code, c.code) : 0;
    if (joined != 0) {
      composed[starter] = {joined, composed[starter].change + c.change - 1};
      continue;
    }
    composed.push_back(c);
    if (combining == 0) starter = std::ssize(composed) - 1;
    blocking = combining == 0 ? -1 : combining;
  }
  return composed;
}

bool IsAscii(const Chars& text) {
  return std::all_of(text.begin(), text.end(), [](const Char& c) { return c.code < 0x80; });
}

template <bool kCompatibility, bool kCompose>
void Form(Chars& text) {
  if (IsAscii(text)) return;  // is in every form
  const std::vector<Change> decomposed = Decompose(text, kCompatibility);
  Apply(kCompose ? Compose(decomposed) : decomposed, text);
}

char32_t Lower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

void Lowercase(Chars& text) {
  constexpr char32_t kDottedI = 0x130;  // the one character whose lower case is two
  Chars lower;
  lower.reserve(text.size());
  for (const Char& c : text) {
    lower.push_back({Lower(c.code), c.begin, c.end});
    if (c.code == kDottedI) lower.push_back({0x307, c.begin, c.end});
  }
  text = std::move(lower);
}

void StripAccents(Chars& text) {
  std::erase_if(text, [](const Char& c) { return IsMark(c.code); });
}

class Plain : public Normalizer {
 public:
  explicit Plain(void (*normalize)(Chars&)) : normalize_(normalize) {}
  void Normalize(Chars& text) const override { normalize_(text); }

 private:
  void (*normalize_)(Chars&);
};

// Without the spaces at its ends.
class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void Normalize(Chars& text) const override {
    const auto solid = [](const Char& c) { return !IsSpace(c.code); };
    if (right_) text.erase(std::find_if(text.rbegin(), text.rend(), solid).base(), text.end());
    if (left_) text.erase(text.begin(), std::find_if(text.begin(), text.end(), solid));
  }

 private:
  bool left_, right_;
};

// Text before the text, unless that is empty; it has the first character's origin.
class Prepend : public Normalizer {
 public:
  explicit Prepend(Chars before) : before_(std::move(before)) {}
  void Normalize(Chars& text) const override {
    if (text.empty()) return;
    Chars before = before_;
    for (Char& c : before) c = {c.code, text[0].begin, text[0].end};
    text.insert(text.begin(), before.begin(), before.end());
  }

 private:
  Chars before_;
};

// One string for another; the new one has the origin of the last character of the old.
class Replace : public Normalizer {
 public:
  Replace(Chars pattern, Chars content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void Normalize(Chars& text) const override {
    const auto same = [](const Char& a, const Char& b) { return a.code == b.code; };
    Chars replaced;
    for (auto at = text.begin();;) {
      const auto found = std::search(at, text.end(), pattern_.begin(), pattern_.end(), same);
      replaced.insert(replaced.end(), at, found);
      if (found == text.end()) break;
      at = found + std::ssize(pattern_);
      for (const Char& c : content_) replaced.push_back({c.code, at[-1].begin, at[-1].end});
    }
    text = std::move(replaced);
  }

 private:
  Chars pattern_, content_;
};

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<const Normalizer>> stages) : stages_(std::move(stages)) {}
  void Normalize(Chars& text) const override {
    for (const auto& stage : stages_) stage->Normalize(text);
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> stages_;
};

using Made = absl::StatusOr<std::unique_ptr<const Normalizer>>;

Made NewSequence(JsonFields& fields) {
  const Json& list = fields.Raw("normalizers");
  if (!list.is_array()) fields.Fail("normalizers is not a list");
  RETURN_IF_ERROR(fields.Finish());
  std::vector<std::unique_ptr<const Normalizer>> stages;
  for (const Json& item : list) {
    ASSIGN_OR_RETURN(auto stage,
                     NewNormalizer(item, Cat(fields.where(), ".normalizers[", stages.size(), "]")));
    if (stage == nullptr) return Invalid(fields.where(), ".normalizers[", stages.size(), "] is null");
    stages.push_back(std::move(stage));
  }
  return std::make_unique<Sequence>(std::move(stages));
}

Made NewReplace(JsonFields& fields) {
  const Json& pattern = fields.Raw("pattern");
  const std::string content = fields.String("content", "");
  RETURN_IF_ERROR(fields.Finish());
  JsonFields kinds(pattern, fields.where() + ".pattern");
  const std::string text = kinds.String("String", "");
  if (kinds.Has("Regex")) kinds.Fail("Heed reads no Regex here, only String");
  if (text.empty()) kinds.Fail("String is missing or empty");
  RETURN_IF_ERROR(kinds.Finish());
  return std::make_unique<Replace>(ToChars(text), ToChars(content));
}

void (*PlainNormalizer(std::string_view type))(Chars&) {
  if (type == "NFC") return Form<false, true>;
  if (type == "NFD") return Form<false, false>;
  if (type == "NFKC") return Form<true, true>;
  if (type == "NFKD") return Form<true, false>;
  if (type == "Lowercase") return Lowercase;
  if (type == "StripAccents") return StripAccents;
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Normalizer>> NewNormalizer(const Json& json, const std::string& where) {
  if (json.is_null()) return nullptr;
  JsonFields fields(json, where);
  const std::string type = fields.String("type", "");
  if (type == "Sequence") return NewSequence(fields);
  if (type == "Replace") return NewReplace(fields);
  Made made;
  if (type == "Strip") {
    const bool left = fields.Bool("strip_left", true);
    made = std::make_unique<Strip>(left, fields.Bool("strip_right", true));
  } else if (type == "Prepend") {
    made = std::make_unique<Prepend>(ToChars(fields.String("prepend", "")));
  } else if (auto normalize = PlainNormalizer(type)) {
    made = std::make_unique<Plain>(normalize);
  } else {
    fields.Fail(Cat("type ", Shown(type), " is none that Heed reads"));
    return fields.Finish();
  }
  RETURN_IF_ERROR(fields.Finish());
  return made;
}

}  // namespace heed
