#include "engine/templates/text_filters.h"

#include <algorithm>
#include <limits>

#include "engine/base/status.h"
#include "engine/templates/characters.h"
#include "engine/text/unicode.h"

namespace heed::jinja {
namespace {

// A filter of text alone; other values are printed first.
template <typename Map>
Filtered OfText(const Value& value, const Arguments& arguments, Budget& budget, const Map& map) {
  RETURN_IF_ERROR(Bind(arguments, "the filter", {}).status());
  const std::string text = Str(value, budget);
  if (!budget.Spend(std::ssize(text))) return Value();
  return Value::Of(map(text));
}

}  // namespace

Filtered UpperFilter(const Value& value, const Arguments& arguments, Budget& budget) {
  return OfText(value, arguments, budget, Upper);
}

Filtered LowerFilter(const Value& value, const Arguments& arguments, Budget& budget) {
  return OfText(value, arguments, budget, Lower);
}

Filtered CapitalizeFilter(const Value& value, const Arguments& arguments, Budget& budget) {
  return OfText(value, arguments, budget, Capitalized);
}

Filtered TitleFilter(const Value& value, const Arguments& arguments, Budget& budget) {
  return OfText(value, arguments, budget, [](std::string_view text) { return Titled(text, "-({[<"); });
}

Filtered StringFilter(const Value& value, const Arguments& arguments, Budget& budget) {
  return OfText(value, arguments, budget, [](std::string_view text) { return std::string(text); });
}

Filtered TrimFilter(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "trim", {"chars"}));
  const std::string text = Str(value, budget);
  if (bound[0].undefined() || bound[0].none()) return Value::Of(std::string(StripLeft(StripRight(text))));
  ASSIGN_OR_RETURN(const std::string* set, TextOf(bound[0], "trim"));
  if (!budget.Spend(std::ssize(text) + std::ssize(*set))) return Value();
  return Value::Of(std::string(StripLeft(StripRight(text, *set), *set)));
}

std::string Replaced(std::string_view text, std::string_view from, std::string_view to, int64_t most,
                     Budget& budget) {
  if (most < 0) most = std::numeric_limits<int64_t>::max();
  std::string replaced;
  size_t at = 0;
  // Nothing is before each character, and at the end.
  const std::vector<size_t> places = from.empty() ? Places(text) : std::vector<size_t>{};
  for (int64_t n = 0; n < most; ++n) {
    const size_t found =
        from.empty() ? (n < std::ssize(places) ? places[n] : text.npos) : text.find(from, at);
    if (found == text.npos || !budget.Spend(std::ssize(to) + static_cast<int64_t>(found - at) + 1)) break;
    replaced += text.substr(at, found - at);
    replaced += to;
    at = found + from.size();
  }
  return replaced.append(text.substr(at));
}

Filtered ReplaceFilter(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "replace", {"old", "new", "count"}, 2));
  const std::string text = Str(value, budget), from = Str(bound[0], budget), to = Str(bound[1], budget);
  int64_t most = -1;
  if (!bound[2].undefined() && !bound[2].none()) {
    ASSIGN_OR_RETURN(most, IntegerOf(bound[2], "replace"));
  }
  return Value::Of(Replaced(text, from, to, most, budget));
}

Filtered FormatFilter(const Value& value, const Arguments& arguments, Budget& budget) {
  if (!arguments.named.empty()) return Invalid("format with names is not supported");
  ASSIGN_OR_RETURN(std::string text, Formatted(Str(value, budget), arguments.positional, budget));
  return Value::Of(std::move(text));
}

Filtered IndentFilter(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "indent", {"width", "first", "blank"}));
  const std::string text = Str(value, budget);
  std::string indent(4, ' ');
  if (bound[0].text()) {
    indent = *bound[0].text();
  } else if (!bound[0].undefined()) {
    ASSIGN_OR_RETURN(const int64_t width, IntegerOf(bound[0], "indent"));
    if (width > 1000) return Invalid("indent: ", width, " is above 1000");
    indent = std::string(std::max<int64_t>(width, 0), ' ');
  }
  std::string indented = Truth(bound[1]) ? indent : "";
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const bool blank = end == at && !Truth(bound[2]);
    if (!budget.Spend(std::ssize(indent) + static_cast<int64_t>(end - at) + 1)) break;
    if (at > 0) indented += blank ? "\n" : "\n" + indent;
    indented.append(text, at, end - at);
    at = end + 1;
  }
  return Value::Of(std::move(indented));
}

Filtered WordCountFilter(const Value& value, const Arguments& arguments, Budget& budget) {
  RETURN_IF_ERROR(Bind(arguments, "wordcount", {}).status());
  const std::string text = Str(value, budget);
  int64_t words = 0;
  bool within = false;
  for (std::string_view rest = text; !rest.empty();) {
    const bool word = IsWord(TakeCharacter(rest));
    words += word && !within ? 1 : 0;
    within = word;
  }
  return Value(words);
}

// As transformers has it, not as Jinja: nothing is escaped for HTML.
Filtered ToJsonFilter(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound,
                   Bind(arguments, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}));
  if (Truth(bound[0])) return Invalid("tojson(ensure_ascii=true) is not supported");
  if (!bound[2].undefined() && !bound[2].none()) return Invalid("tojson(separators=...) is not supported");
  int64_t indent = -1;
  if (!bound[1].undefined() && !bound[1].none()) {
    ASSIGN_OR_RETURN(indent, IntegerOf(bound[1], "tojson"));
    if (indent < 0 || indent > 16) return Invalid("tojson: indent ", indent, " is not 0 to 16");
  }
  ASSIGN_OR_RETURN(std::string text, ToJson(value, static_cast<int>(indent), Truth(bound[3]), budget));
  return Value::Of(std::move(text));
}

}  // namespace heed::jinja
