#include "engine/templates/lexer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "engine/base/status.h"
#include "engine/templates/characters.h"
#include "engine/text/unicode.h"

namespace heed::jinja {
namespace {

using Type = Token::Type;

// Line ends are one character, and the last one goes.
std::string Normalized(std::string_view source) {
  std::string text =
      absl::StrReplaceAll(absl::string_view(source.data(), source.size()), {{"\r\n", "\n"}, {"\r", "\n"}});
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool BeginsName(char c) { return absl::ascii_isalpha(c) || c == '_'; }
bool InName(char c) { return absl::ascii_isalnum(c) || c == '_'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(Normalized(source)) {}

  absl::StatusOr<std::vector<Token>> All() {
    while (at_ < source_.size()) {
      const size_t open = Opening();
      const std::string_view text = Slice(at_, open);
      if (open == source_.size()) {
        AddText(text);
        break;
      }
      const char kind = source_[open + 1];
      const char sign = Sign(open + 2);
      AddText(WithoutIndent(text, kind, sign, line_starts_));
      line_ += static_cast<int>(std::ranges::count(text, '\n')) - added_lines_;
      at_ = open + (sign ? 3 : 2);
      RETURN_IF_ERROR(kind == '#' ? Comment() : kind == '{' ? Code(false) : Block());
    }
    Add(Type::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view Slice(size_t begin, size_t end) const {
    return std::string_view(source_).substr(begin, end - begin);
  }
  std::string_view Rest() const { return std::string_view(source_).substr(at_); }
  char At(size_t place) const { return place < source_.size() ? source_[place] : '\0'; }
  char Sign(size_t place) const { return At(place) == '-' || At(place) == '+' ? At(place) : '\0'; }

  size_t Opening() const {
    size_t open = source_.find('{', at_);
    while (open != source_.npos && At(open + 1) != '%' && At(open + 1) != '{' && At(open + 1) != '#')
      open = source_.find('{', open + 1);
    return std::min(open, source_.size());
  }

  void Add(Type type, std::string text) {
    tokens_.push_back({.type = type, .text = std::move(text), .line = line_});
  }
  // The text's lines count here; those that were cut off are the caller's.
  void AddText(std::string_view text) {
    added_lines_ = static_cast<int>(std::ranges::count(text, '\n'));
    if (!text.empty()) Add(Type::kText, std::string(text));
    line_ += added_lines_;
  }
  absl::Status Wrong(std::string_view what) const { return Invalid("line ", line_, ": ", what); }

  // Before a tag: "-" takes all white space, and that which begins the line of a block goes unless "+" says
  // no. `line_starts`: what the text begins with is the first of its line.
  static std::string_view WithoutIndent(std::string_view text, char kind, char sign, bool line_starts) {
    if (sign == '-') return StripRight(text);
    if (sign == '+' || kind == '{') return text;
    const size_t line = text.rfind('\n') + 1;  // 0 where there is none
    if ((line > 0 || line_starts) && StripLeft(text.substr(line)).empty()) return text.substr(0, line);
    return text;
  }

  // Takes the end of a tag, `end` without its sign, if it is here, with the white space that goes with it.
  bool TakeEnd(std::string_view end, bool trims, bool plus) {
    const char sign = Sign(at_);
    if (sign == '+' && !plus) return false;
    const size_t length = end.size() + (sign ? 1 : 0);
    if (!Rest().substr(sign ? 1 : 0).starts_with(end)) return false;
    const size_t begin = at_;
    at_ += length;
    if (sign == '-') {
      at_ = source_.size() - StripLeft(Rest()).size();
    } else if (sign == '\0' && trims && At(at_) == '\n') {
      ++at_;
    }
    CountLines(begin);
    line_starts_ = source_[at_ - 1] == '\n';
    return true;
  }

  void CountLines(size_t begin) { line_ += static_cast<int>(std::ranges::count(Slice(begin, at_), '\n')); }

  absl::Status Comment() {
    const size_t begin = at_, end = source_.find("#}", at_);
    if (end == source_.npos) return Wrong("a comment {# has no end #}");
    at_ = end > at_ && Sign(end - 1) ? end - 1 : end;
    line_ += static_cast<int>(std::ranges::count(Slice(begin, at_), '\n'));
    TakeEnd("#}", /*trims=*/true, /*plus=*/true);
    return absl::OkStatus();
  }

  // {% raw %} is text up to {% endraw %}; anything else is code.
  absl::Status Block() {
    const size_t begin = at_;
    const int line = line_;
    if (!TakeWord("raw") || !TakeEnd("%}", /*trims=*/false, /*plus=*/false)) {
      at_ = begin;
      line_ = line;
      return Code(true);
    }
    for (size_t open = source_.find("{%", at_); open != source_.npos; open = source_.find("{%", open + 2)) {
      const std::string_view text = Slice(at_, open);
      const char sign = Sign(open + 2);
      const size_t back = std::exchange(at_, open + (sign ? 3 : 2));
      const int lines = std::exchange(line_, line_ + static_cast<int>(std::ranges::count(text, '\n')));
      const bool line_starts = line_starts_;
      if (TakeWord("endraw") && TakeEnd("%}", /*trims=*/true, /*plus=*/true)) {
        const std::string_view kept = WithoutIndent(text, '%', sign, line_starts);
        if (!kept.empty()) Add(Type::kText, std::string(kept));
        return absl::OkStatus();
      }
      at_ = back;
      line_ = lines;
    }
    return Wrong("{% raw %} has no {% endraw %}");
  }

  bool TakeWord(std::string_view word) {
    const size_t begin = at_;
    SkipSpace();
    if (!Rest().starts_with(word) || InName(At(at_ + word.size()))) return at_ = begin, false;
    at_ += word.size();
    SkipSpace();
    return true;
  }

  void SkipSpace() {
    const size_t begin = at_;
    at_ = source_.size() - StripLeft(Rest()).size();
    CountLines(begin);
  }

  absl::Status Code(bool block) {
    Add(block ? Type::kBlockBegin : Type::kPrintBegin, "");
    const std::string_view end = block ? "%}" : "}}";
    std::string open;  // brackets without their other half
    while (true) {
      SkipSpace();
      if (at_ == source_.size()) return Wrong(Cat("a tag has no end ", end));
      const int line = line_;
      if (open.empty() && TakeEnd(end, block, block)) {
        tokens_.push_back({.type = block ? Type::kBlockEnd : Type::kPrintEnd, .line = line});
        return absl::OkStatus();
      }
      RETURN_IF_ERROR(CodeToken(open));
    }
  }

  absl::Status CodeToken(std::string& open) {
    const char c = source_[at_];
    if (BeginsName(c)) {
      const size_t begin = at_;
      while (InName(At(at_))) ++at_;
      Add(Type::kName, std::string(Slice(begin, at_)));
      return absl::OkStatus();
    }
    if (absl::ascii_isdigit(c)) return Number();
    if (c == '\'' || c == '"') return String();
    return Operator(open);
  }

  absl::Status Operator(std::string& open) {
    static constexpr std::array<std::string_view, 6> kTwo = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,;";
    const std::string_view two = Rest().substr(0, 2);
    if (std::ranges::find(kTwo, two) != kTwo.end()) {
      Add(Type::kOperator, std::string(two));
      at_ += 2;
      return absl::OkStatus();
    }
    const char c = source_[at_];
    if (kOne.find(c) == kOne.npos) {
      std::string_view rest = Rest();
      std::string character;
      AppendUtf8(TakeCharacter(rest), character);
      return Wrong(Cat("'", character, "' is no part of an expression"));
    }
    constexpr std::string_view kOpens = "([{", kCloses = ")]}";
    if (kOpens.find(c) != kOpens.npos) open += kCloses[kOpens.find(c)];
    if (kCloses.find(c) != kCloses.npos) {
      if (open.empty() || open.back() != c) return Wrong(Cat("'", std::string(1, c), "' closes nothing"));
      open.pop_back();
    }
    Add(Type::kOperator, std::string(1, c));
    ++at_;
    return absl::OkStatus();
  }

  std::string Digits() {
    std::string digits;
    for (; absl::ascii_isdigit(At(at_)) || (At(at_) == '_' && absl::ascii_isdigit(At(at_ + 1))); ++at_)
      if (At(at_) != '_') digits += At(at_);
    return digits;
  }

  absl::Status Number() {
    const bool after_dot = !tokens_.empty() && tokens_.back().IsOperator(".");
    std::string text = Digits();
    Type type = Type::kInteger;
    if (!after_dot && At(at_) == '.' && absl::ascii_isdigit(At(at_ + 1))) {
      ++at_;
      text += "." + Digits();
      type = Type::kFloat;
    }
    const size_t sign = At(at_ + 1) == '+' || At(at_ + 1) == '-' ? 1 : 0;
    if (!after_dot && (At(at_) == 'e' || At(at_) == 'E') && absl::ascii_isdigit(At(at_ + 1 + sign))) {
      text += Slice(at_, at_ + 1 + sign);
      at_ += 1 + sign;
      text += Digits();
      type = Type::kFloat;
    }
    if (InName(At(at_))) return Wrong(Cat("'", text, std::string(1, At(at_)), "' is no number that is read"));
    Add(type, std::move(text));
    return absl::OkStatus();
  }

  absl::Status String() {
    const char quote = source_[at_++];
    const size_t begin = at_;
    Token token{.type = Type::kString, .line = line_};
    while (At(at_) != quote || at_ >= source_.size()) {
      if (at_ >= source_.size()) return Wrong("a string has no end");
      if (source_[at_] == '\\') {
        RETURN_IF_ERROR(Escape(token.text));
      } else {
        token.text += source_[at_++];
      }
    }
    CountLines(begin);
    ++at_;
    tokens_.push_back(std::move(token));
    return absl::OkStatus();
  }

  // Python's escapes, of which those that it does not know stay as they are.
  absl::Status Escape(std::string& text) {
    const char c = At(at_ + 1);
    constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeant = "\\'\"\a\b\f\n\r\t\v";
    if (const size_t known = kLetters.find(c); known != kLetters.npos) {
      text += kMeant[known];
      at_ += 2;
    } else if (c == '\n') {
      at_ += 2;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      return CodeEscape(c == 'x' ? 2 : c == 'u' ? 4 : 8, text);
    } else if ((c >= '0' && c <= '7') || c == 'N') {
      return Wrong(Cat("the escape \\", std::string(1, c), " is not supported"));
    } else {
      text += '\\';
      ++at_;
    }
    return absl::OkStatus();
  }

  absl::Status CodeEscape(size_t digits, std::string& text) {
    const std::string_view code = Rest().substr(2, digits);
    uint32_t character = 0;
    if (code.size() < digits || !std::ranges::all_of(code, absl::ascii_isxdigit) ||
        !absl::SimpleHexAtoi({code.data(), code.size()}, &character) || character > 0x10ffff ||
        (character >= 0xd800 && character < 0xe000)) {
      return Wrong(Cat("'\\", Rest().substr(1, 1 + code.size()), "' is no character"));
    }
    AppendUtf8(static_cast<char32_t>(character), text);
    at_ += 2 + digits;
    return absl::OkStatus();
  }

  const std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  int added_lines_ = 0;
  bool line_starts_ = true;  // what comes next is the first of its line
  std::vector<Token> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Lex(std::string_view source) { return Lexer(source).All(); }

}  // namespace heed::jinja
