#include "engine/text/regex_syntax.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace heed {
namespace {

using Text = std::u32string;
using TextView = std::u32string_view;

// Names of properties that PCRE2 lacks, without spaces, "_" and "-"; those with ":" are POSIX classes there.
constexpr std::pair<TextView, TextView> kProperties[] = {{U"letter", U"L"},
                                                         {U"mark", U"M"},
                                                         {U"combiningmark", U"M"},
                                                         {U"number", U"N"},
                                                         {U"punctuation", U"P"},
                                                         {U"symbol", U"S"},
                                                         {U"separator", U"Z"},
                                                         {U"other", U"C"},
                                                         {U"uppercaseletter", U"Lu"},
                                                         {U"lowercaseletter", U"Ll"},
                                                         {U"titlecaseletter", U"Lt"},
                                                         {U"casedletter", U"L&"},
                                                         {U"modifierletter", U"Lm"},
                                                         {U"otherletter", U"Lo"},
                                                         {U"nonspacingmark", U"Mn"},
                                                         {U"spacingmark", U"Mc"},
                                                         {U"enclosingmark", U"Me"},
                                                         {U"decimalnumber", U"Nd"},
                                                         {U"letternumber", U"Nl"},
                                                         {U"othernumber", U"No"},
                                                         {U"connectorpunctuation", U"Pc"},
                                                         {U"dashpunctuation", U"Pd"},
                                                         {U"openpunctuation", U"Ps"},
                                                         {U"closepunctuation", U"Pe"},
                                                         {U"initialpunctuation", U"Pi"},
                                                         {U"finalpunctuation", U"Pf"},
                                                         {U"otherpunctuation", U"Po"},
                                                         {U"mathsymbol", U"Sm"},
                                                         {U"currencysymbol", U"Sc"},
                                                         {U"modifiersymbol", U"Sk"},
                                                         {U"othersymbol", U"So"},
                                                         {U"spaceseparator", U"Zs"},
                                                         {U"lineseparator", U"Zl"},
                                                         {U"paragraphseparator", U"Zp"},
                                                         {U"control", U"Cc"},
                                                         {U"cntrl", U"Cc"},
                                                         {U"format", U"Cf"},
                                                         {U"privateuse", U"Co"},
                                                         {U"unassigned", U"Cn"},
                                                         {U"digit", U"Nd"},
                                                         {U"alnum", U":alnum:"},
                                                         {U"blank", U":blank:"},
                                                         {U"graph", U":graph:"},
                                                         {U"print", U":print:"},
                                                         {U"punct", U":punct:"},
                                                         {U"word", U":word:"},
                                                         {U"xdigit", U":xdigit:"}};

constexpr TextView kWord = U"\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
constexpr TextView kHex = U"0-9a-fA-F";
constexpr int kMaxDepth = 16;  // of classes in each other; PCRE2 takes no more

bool IsHexDigit(char32_t c) { return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f'); }

// A property's name as it is compared.
Text Folded(TextView name) {
  Text folded;
  for (const char32_t c : name) {
    if (c != ' ' && c != '_' && c != '-') folded.push_back(c >= 'A' && c <= 'Z' ? c | 32 : c);
  }
  return folded;
}

class Translation {
 public:
  explicit Translation(TextView pattern) : rest_(pattern) {}

  Pcre2Pattern Make() {
    while (!rest_.empty()) Item();
    return std::move(made_);
  }

 private:
  void Item() {
    const char32_t c = rest_[0];
    if (c == '{' && Repeat()) return;
    if (TextView(U"*+?|^$").find(c) == TextView::npos) last_ = made_.text.size();
    if (c == '\\') {
      made_.text += Escape(/*in_class=*/false);
    } else if (c == '[') {
      made_.text += TakeClass().text;
    } else {
      if (c == '(') groups_.push_back(made_.text.size());
      if (c == ')' && !groups_.empty()) {
        last_ = groups_.back();
        groups_.pop_back();
      }
      made_.text += Take(1);
    }
  }

  TextView Take(size_t count) {
    const TextView taken = rest_.substr(0, count);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  // {n,m}+ repeats a repetition and is not possessive; {n}? may be left out and is not lazy.
  bool Repeat() {
    size_t end = 1;
    while (end < rest_.size() && ((rest_[end] >= '0' && rest_[end] <= '9') || rest_[end] == ',')) ++end;
    if (end == 1 || end == rest_.size() || rest_[end] != '}') return false;
    const TextView repeat = Take(end + 1);
    const bool fixed = repeat.find(',') == TextView::npos;
    const bool again = !rest_.empty() && (rest_[0] == '+' || (rest_[0] == '?' && fixed));
    if (again) made_.text.insert(last_, U"(?:");
    made_.text += repeat;
    if (again) made_.text += U")";
    if (again) made_.text += Take(1);
    return true;
  }

  // As it is outside a class; within one, `negated` makes it a class of its own.
  Text Set(TextView content, bool negated, bool in_class) {
    if (in_class && !negated) return Text(content);
    if (in_class) made_.extended_classes = true;
    return Text(negated ? U"[^" : U"[").append(content) + U"]";
  }

  Text Escape(bool in_class) {
    if (rest_.size() < 2) return Text(Take(1));
    const char32_t c = rest_[1];
    if (c == 'p' || c == 'P') return Property(in_class);
    const bool hex = rest_.size() >= 6 && std::all_of(rest_.begin() + 2, rest_.begin() + 6, IsHexDigit);
    const TextView taken = Take(c == 'u' && hex ? 6 : 2);
    if (c == 'h' || c == 'H') return Set(kHex, c == 'H', in_class);
    if (c == 'w' || c == 'W') return Set(kWord, c == 'W', in_class);
    if (c == 's') return U"\\p{White_Space}";
    if (c == 'S') return U"\\P{White_Space}";
    if (c == 'v') return U"\\x0b";
    if (taken.size() == 6) return Text(U"\\x{").append(taken.substr(2)) + U"}";
    return Text(taken);
  }

  // \p{Name}, \P{Name}, \p{^Name}
  Text Property(bool in_class) {
    const size_t end = rest_.find('}');
    if (rest_.size() < 3 || rest_[2] != '{' || end == TextView::npos) return Text(Take(2));
    const TextView taken = Take(end + 1);
    TextView name = taken.substr(3, end - 3);
    const bool inverted = name.starts_with('^');
    if (inverted) name.remove_prefix(1);
    const auto* known = std::find_if(std::begin(kProperties), std::end(kProperties),
                                     [&](const auto& property) { return property.first == Folded(name); });
    if (known == std::end(kProperties)) return Text(taken);
    const bool negated = inverted != (taken[1] == 'P');
    if (known->second[0] == ':') return Set(Text(U"[").append(known->second) + U"]", negated, in_class);
    return Text(negated ? U"\\P{" : U"\\p{").append(known->second) + U"}";
  }

  struct Class {
    Text text;          // with its brackets
    bool plain = true;  // no "^" and no intersection: may stand in another without its brackets
  };

  // A class; what stands in it may be classes.
  Class TakeClass() {
    ++depth_;
    Class made;
    made.text = Take(1);
    if (rest_.starts_with('^')) {
      made.text += Take(1);
      made.plain = false;
    }
    if (rest_.starts_with(']')) made.text += Text(U"\\").append(Take(1));  // itself
    while (!rest_.empty() && rest_[0] != ']') InClass(made);
    made.text += Take(1);
    --depth_;
    return made;
  }

  void InClass(Class& made) {
    if (rest_[0] == '\\') {
      made.text += Escape(/*in_class=*/true);
    } else if (rest_.starts_with(U"[:") && rest_.find(U":]") != TextView::npos) {
      made.text += Take(rest_.find(U":]") + 2);
    } else if (rest_[0] == '[' && depth_ < kMaxDepth) {
      Nested(made);
    } else if (rest_.starts_with(U"&&")) {
      made_.extended_classes = true;
      made.plain = false;
      made.text += Take(2);
    } else if (rest_.starts_with(U"||") || rest_.starts_with(U"~~")) {
      made.text += Text(U"\\").append(Take(1));
    } else if (rest_.starts_with(U"--")) {
      made.text += Take(1);
      made.text += Text(U"\\").append(Take(1));
    } else {
      made.text += Take(1);
    }
  }

  void Nested(Class& outer) {
    const Class inner = TakeClass();
    if (inner.plain) {
      outer.text.append(inner.text, 1, inner.text.size() - 2);
    } else {
      made_.extended_classes = true;
      outer.text += inner.text;
    }
  }

  TextView rest_;
  Pcre2Pattern made_;
  size_t last_ = 0;             // where what a repetition repeats begins, in what is made
  std::vector<size_t> groups_;  // where those that are open begin
  int depth_ = 0;               // of classes
};

}  // namespace

Pcre2Pattern FromOniguruma(std::u32string_view pattern) { return Translation(pattern).Make(); }

}  // namespace heed
