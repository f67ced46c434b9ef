// Regular expressions as the tokenizers package reads them (Oniguruma, Ruby's syntax), said as PCRE2 reads
// them.
#ifndef HEED_ENGINE_TEXT_REGEX_SYNTAX_H_
#define HEED_ENGINE_TEXT_REGEX_SYNTAX_H_

#include <string>
#include <string_view>

namespace heed {

struct Pcre2Pattern {
  std::u32string text;
  bool extended_classes = false;  // has classes within classes, or their intersections
};

// What differs is said otherwise: \h, \v, \u, \s, \w, names of properties, {n,m}+ and {n}?, classes within
// classes. All else stays as it is, also what is wrong.
Pcre2Pattern FromOniguruma(std::u32string_view pattern);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_REGEX_SYNTAX_H_
