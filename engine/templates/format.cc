// `text % values`, Python's.
#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "engine/base/status.h"
#include "engine/templates/text_filters.h"
#include "engine/text/tokenizer.h"

namespace heed::jinja {
namespace {

constexpr int kWidest = 1000;

struct Conversion {
  bool left = false, zero = false, plus = false, space = false;
  int width = 0, precision = -1;
  char kind = 's';
};

absl::Status TakeNumber(const std::string& text, size_t& at, int& number) {
  number = 0;
  for (; at < text.size() && absl::ascii_isdigit(text[at]); ++at) {
    number = 10 * number + (text[at] - '0');
    if (number > kWidest) return Invalid("format: a width above ", kWidest);
  }
  return absl::OkStatus();
}

// From after the '%' to after the letter.
absl::StatusOr<Conversion> TakeConversion(const std::string& text, size_t& at) {
  Conversion conversion;
  for (; at < text.size() && std::string_view("-0+ ").find(text[at]) != std::string_view::npos; ++at) {
    conversion.left |= text[at] == '-';
    conversion.zero |= text[at] == '0';
    conversion.plus |= text[at] == '+';
    conversion.space |= text[at] == ' ';
  }
  RETURN_IF_ERROR(TakeNumber(text, at, conversion.width));
  if (at < text.size() && text[at] == '.') {
    ++at;
    RETURN_IF_ERROR(TakeNumber(text, at, conversion.precision));
  }
  if (at == text.size()) return Invalid("format: a '%' has no letter");
  conversion.kind = text[at++];
  if (std::string_view("srdifegxX%").find(conversion.kind) == std::string_view::npos)
    return Invalid("format: '%", std::string(1, conversion.kind), "' is not supported");
  return conversion;
}

absl::StatusOr<std::string> Digits(const Conversion& conversion, const Value& value) {
  const char kind = conversion.kind;
  if (!value.is_number()) return Invalid("format: '%", std::string(1, kind), "' of a ", TypeOf(value));
  const int precision = conversion.precision < 0 ? 6 : conversion.precision;
  if (kind == 'f') return absl::StrFormat("%.*f", precision, value.number());
  if (kind == 'e') return absl::StrFormat("%.*e", precision, value.number());
  if (kind == 'g') return absl::StrFormat("%.*g", precision, value.number());
  if (!value.is_integer() && !(std::abs(value.number()) < 9e18))
    return Invalid("format: a number is too large");
  const int64_t number = value.is_integer() ? value.integer() : static_cast<int64_t>(value.number());
  if (kind == 'd' || kind == 'i') return absl::StrFormat("%d", number);
  if (number < 0) return Invalid("format: '%", std::string(1, kind), "' of ", number, " is not supported");
  return kind == 'x' ? absl::StrFormat("%x", number) : absl::StrFormat("%X", number);
}

absl::StatusOr<std::string> Converted(const Conversion& conversion, const Value& value, Budget& budget) {
  if (conversion.kind == 's' || conversion.kind == 'r') {
    if (conversion.precision >= 0) return Invalid("format: a precision of text is not supported");
    return conversion.kind == 's' ? Str(value, budget) : Repr(value, budget);
  }
  ASSIGN_OR_RETURN(std::string digits, Digits(conversion, value));
  std::string sign;
  if (digits[0] == '-') {
    sign = "-";
    digits.erase(0, 1);
  } else if (conversion.plus || conversion.space) {
    sign = conversion.plus ? "+" : " ";
  }
  const int64_t missing = conversion.width - std::ssize(sign) - std::ssize(digits);
  if (conversion.zero && !conversion.left && missing > 0) digits.insert(0, missing, '0');
  return sign + digits;
}

}  // namespace

absl::StatusOr<std::string> Formatted(const std::string& text, const List& values, Budget& budget) {
  std::string out;
  size_t used = 0;
  for (size_t at = 0; at < text.size() && !budget.spent();) {
    const size_t percent = std::min(text.find('%', at), text.size());
    if (!budget.Spend(static_cast<int64_t>(percent - at) + kWidest / 100)) break;
    out.append(text, at, percent - at);
    at = percent + 1;
    if (percent == text.size()) break;
    ASSIGN_OR_RETURN(const Conversion conversion, TakeConversion(text, at));
    if (conversion.kind == '%') {
      out += '%';
      continue;
    }
    if (used == values.size()) return Invalid("format: there are fewer values than places for them");
    ASSIGN_OR_RETURN(const std::string shown, Converted(conversion, values[used++], budget));
    const int64_t missing = std::max<int64_t>(conversion.width - CodePoints(shown), 0);
    if (!budget.Spend(missing + std::ssize(shown))) break;
    const std::string fill(missing, ' ');
    out += conversion.left ? shown + fill : fill + shown;
  }
  if (used < values.size() && !budget.spent())
    return Invalid("format: there are more values than places for them");
  return out;
}

}  // namespace heed::jinja
