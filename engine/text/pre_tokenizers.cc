#include "engine/text/pre_tokenizers.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/text/byte_level.h"
#include "engine/text/regex.h"
#include "engine/text/scripts.h"
#include "engine/text/splitting.h"
#include "engine/text/unicode.h"

namespace heed {
namespace {

using CharClass = bool (*)(char32_t);

// Splits at characters of one class.
class ClassSplit : public PreTokenizer {
 public:
  ClassSplit(CharClass in_class, Behavior behavior) : in_class_(in_class), behavior_(behavior) {}
  absl::Status Split(CharSpan word, Words& words) const override {
    SplitAtCharacters(in_class_, behavior_, word, words);
    return absl::OkStatus();
  }

 private:
  CharClass in_class_;
  Behavior behavior_;
};

// Splits at one character, which goes.
class DelimiterSplit : public PreTokenizer {
 public:
  explicit DelimiterSplit(char32_t delimiter) : delimiter_(delimiter) {}
  absl::Status Split(CharSpan word, Words& words) const override {
    SplitAtCharacters([&](char32_t c) { return c == delimiter_; }, Behavior::kRemoved, word, words);
    return absl::OkStatus();
  }

 private:
  char32_t delimiter_;
};

// Splits at what a pattern finds; inverted, at all else.
class PatternSplit : public PreTokenizer {
 public:
  PatternSplit(Regex pattern, bool invert, Behavior behavior)
      : pattern_(std::move(pattern)), invert_(invert), behavior_(behavior) {}
  absl::Status Split(CharSpan word, Words& words) const override {
    return SplitAtMatches(pattern_, invert_, behavior_, word, words);
  }

 private:
  const Regex pattern_;
  bool invert_;
  Behavior behavior_;
};

// \w+|[^\w\s]+ : runs of word characters and runs of others, without the spaces.
class Whitespace : public PreTokenizer {
 public:
  absl::Status Split(CharSpan word, Words& words) const override {
    bool in_word = false;
    for (const Char& c : word) {
      const bool is_word = IsWord(c.code), is_space = !is_word && IsSpace(c.code);
      if (is_space || is_word != in_word) words.Cut();
      if (!is_space) words.Add(c);
      in_word = is_word;
    }
    words.Cut();
    return absl::OkStatus();
  }
};

// Spaces go, every punctuation mark stands alone.
class Bert : public PreTokenizer {
 public:
  absl::Status Split(CharSpan word, Words& words) const override {
    Words parts;
    SplitAtCharacters(IsSpace, Behavior::kRemoved, word, parts);
    for (size_t i = 0; i < parts.size(); ++i)
      SplitAtCharacters(IsPunctuation, Behavior::kIsolated, parts[i], words);
    return absl::OkStatus();
  }
};

// A word with one more character before it, of its first one's origin.
Chars WithPrefix(char32_t prefix, CharSpan word) {
  Chars text;
  text.reserve(word.size() + 1);
  text.push_back({prefix, word[0].begin, word[0].end});
  text.insert(text.end(), word.begin(), word.end());
  return text;
}

// Words as a pattern finds them, if there is one, spelled byte by byte.
class ByteLevel : public PreTokenizer {
 public:
  static constexpr char kPattern[] =  // GPT-2's
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

  ByteLevel(bool add_prefix_space, std::optional<Regex> pattern)
      : add_prefix_space_(add_prefix_space), pattern_(std::move(pattern)) {}

  absl::Status Split(CharSpan word, Words& words) const override {
    if (!add_prefix_space_ || word[0].code == ' ') return SplitAsItIs(word, words);
    return SplitAsItIs(WithPrefix(' ', word), words);
  }

 private:
  absl::Status SplitAsItIs(CharSpan word, Words& words) const {
    if (!pattern_) {
      Spell(word, words);
      return absl::OkStatus();
    }
    Words parts;
    RETURN_IF_ERROR(SplitAtMatches(*pattern_, /*invert=*/false, Behavior::kIsolated, word, parts));
    for (size_t i = 0; i < parts.size(); ++i) Spell(parts[i], words);
    return absl::OkStatus();
  }

  static void Spell(CharSpan word, Words& words) {
    for (const Char& c : word) AppendByteLevel(c, words.chars());
    words.Cut();
  }

  const bool add_prefix_space_;
  const std::optional<Regex> pattern_;
};

// Spaces become a visible character, which a word begins with.
class Metaspace : public PreTokenizer {
 public:
  enum class Prepend { kAlways, kFirst, kNever };  // at words that do not begin so; kFirst: of the text

  Metaspace(char32_t replacement, Prepend prepend, bool split)
      : replacement_(replacement), prepend_(prepend), split_(split) {}

  absl::Status Split(CharSpan word, Words& words) const override {
    const bool begins_so = word[0].code == ' ' || word[0].code == replacement_;
    const bool wanted = prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && word[0].begin == 0);
    Chars text = wanted && !begins_so ? WithPrefix(replacement_, word) : Chars(word.begin(), word.end());
    for (Char& c : text) {
      if (c.code == ' ') c.code = replacement_;
    }
    const auto begins = [&](char32_t c) { return split_ && c == replacement_; };
    SplitAtCharacters(begins, Behavior::kMergedWithNext, text, words);
    return absl::OkStatus();
  }

 private:
  const char32_t replacement_;
  const Prepend prepend_;
  const bool split_;
};

// Words of so many characters.
class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(size_t length) : length_(length) {}
  absl::Status Split(CharSpan word, Words& words) const override {
    for (; !word.empty(); word = word.subspan(std::min(length_, word.size()))) {
      words.Add(word.first(std::min(length_, word.size())));
      words.Cut();
    }
    return absl::OkStatus();
  }

 private:
  const size_t length_;
};

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<const PreTokenizer>> stages) : stages_(std::move(stages)) {}
  absl::Status Split(CharSpan word, Words& words) const override {
    Words whole;
    whole.Add(word);
    whole.Cut();
    for (const auto& stage : stages_) {
      Words parts;
      for (size_t i = 0; i < whole.size(); ++i) RETURN_IF_ERROR(stage->Split(whole[i], parts));
      whole = std::move(parts);
    }
    for (size_t i = 0; i < whole.size(); ++i) {
      words.Add(whole[i]);
      words.Cut();
    }
    return absl::OkStatus();
  }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> stages_;
};

using Made = absl::StatusOr<std::unique_ptr<const PreTokenizer>>;

Made NewSequence(JsonFields& fields) {
  const Json& list = fields.Raw("pretokenizers");
  if (!list.is_array()) fields.Fail("pretokenizers is not a list");
  RETURN_IF_ERROR(fields.Finish());
  std::vector<std::unique_ptr<const PreTokenizer>> stages;
  for (const Json& item : list) {
    ASSIGN_OR_RETURN(auto stage,
                     NewPreTokenizer(item, Cat(fields.where(), ".pretokenizers[", stages.size(), "]")));
    if (stage == nullptr) return Invalid(fields.where(), ".pretokenizers[", stages.size(), "] is null");
    stages.push_back(std::move(stage));
  }
  return std::make_unique<Sequence>(std::move(stages));
}

// A field that is one character; `fallback` where it is absent, if that is not NUL.
char32_t ReadCharacter(JsonFields& fields, std::string_view key, char32_t fallback) {
  std::string usual;
  if (fallback != 0) AppendUtf8(fallback, usual);
  const std::string text = fields.String(key, usual);
  const Chars chars = ToChars(text);
  if (chars.size() == 1) return chars[0].code;
  fields.Fail(Cat(key, ": ", Shown(text), " is not one character"));
  return fallback;
}

Made NewByteLevel(JsonFields& fields) {
  const bool add_prefix_space = fields.Bool("add_prefix_space", true);
  const bool use_regex = fields.Bool("use_regex", true);
  fields.Ignore("trim_offsets");  // the post-processor's
  RETURN_IF_ERROR(fields.Finish());
  std::optional<Regex> pattern;
  if (use_regex) {
    ASSIGN_OR_RETURN(pattern, Regex::Compile(ByteLevel::kPattern));
  }
  return std::make_unique<ByteLevel>(add_prefix_space, std::move(pattern));
}

Made NewMetaspace(JsonFields& fields) {
  const char32_t replacement = ReadCharacter(fields, "replacement", 0x2581);
  const std::string scheme = fields.Choice("prepend_scheme", {"always", "first", "never"});
  const bool prefix = fields.Bool("add_prefix_space", true);  // of older files, which have no scheme
  const bool split = fields.Bool("split", true);
  fields.Ignore("str_rep");
  RETURN_IF_ERROR(fields.Finish());
  const auto prepend = scheme == "never" || !prefix ? Metaspace::Prepend::kNever
                       : scheme == "first"          ? Metaspace::Prepend::kFirst
                                                    : Metaspace::Prepend::kAlways;
  return std::make_unique<Metaspace>(replacement, prepend, split);
}

Made NewPatternSplit(JsonFields& fields) {
  const Json& pattern = fields.Raw("pattern");
  const bool invert = fields.Bool("invert", false);
  const Behavior behavior = ReadBehavior(fields);
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(Regex regex, ReadPattern(pattern, fields.where() + ".pattern"));
  return std::make_unique<PatternSplit>(std::move(regex), invert, behavior);
}

Made NewUnicodeScripts(JsonFields& fields) {
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(Regex runs, Regex::Compile(ScriptRuns()));
  return std::make_unique<PatternSplit>(std::move(runs), /*invert=*/true, Behavior::kRemoved);
}

// Those that need no more than their fields; null: the type is none of them.
std::unique_ptr<const PreTokenizer> NewSimple(std::string_view type, JsonFields& fields) {
  if (type == "Whitespace") return std::make_unique<Whitespace>();
  if (type == "WhitespaceSplit") return std::make_unique<ClassSplit>(IsSpace, Behavior::kRemoved);
  if (type == "BertPreTokenizer") return std::make_unique<Bert>();
  if (type == "Punctuation") return std::make_unique<ClassSplit>(IsPunctuation, ReadBehavior(fields));
  if (type == "CharDelimiterSplit")
    return std::make_unique<DelimiterSplit>(ReadCharacter(fields, "delimiter", 0));
  if (type == "FixedLength") return std::make_unique<FixedLength>(fields.Int("length", 5, 1, INT32_MAX));
  if (type == "Digits") {
    const bool each = fields.Bool("individual_digits", false);
    return std::make_unique<ClassSplit>(IsNumeric, each ? Behavior::kIsolated : Behavior::kContiguous);
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const PreTokenizer>> NewPreTokenizer(const Json& json,
                                                                    const std::string& where) {
  if (json.is_null()) return nullptr;
  JsonFields fields(json, where);
  const std::string type = fields.String("type", "");
  if (type == "Sequence") return NewSequence(fields);
  if (type == "ByteLevel") return NewByteLevel(fields);
  if (type == "Metaspace") return NewMetaspace(fields);
  if (type == "Split") return NewPatternSplit(fields);
  if (type == "UnicodeScripts") return NewUnicodeScripts(fields);
  auto made = NewSimple(type, fields);
  if (made == nullptr) fields.Fail(Cat("type ", Shown(type), " is none that Heed reads"));
  RETURN_IF_ERROR(fields.Finish());
  return made;
}

}  // namespace heed
