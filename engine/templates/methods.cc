#include "engine/templates/methods.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "engine/base/status.h"
#include "engine/templates/characters.h"
#include "engine/templates/operators.h"
#include "engine/templates/text_filters.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"

namespace heed::jinja {
namespace {

using Called = absl::StatusOr<Value>;
using Method = Called (*)(const Value& value, const Arguments& arguments, Budget& budget);

// --------------------------------------------------------------------------------------------- of text

template <std::string (*map)(std::string_view)>
Called Mapped(const Value& value, const Arguments& arguments, Budget& budget) {
  RETURN_IF_ERROR(Bind(arguments, "the method", {}).status());
  if (!budget.Spend(std::ssize(*value.text()))) return Value();
  return Value::Of(map(*value.text()));
}

template <bool left, bool right>
Called Strip(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "strip", {"chars"}));
  std::string_view text = *value.text();
  if (!budget.Spend(std::ssize(text))) return Value();
  if (bound[0].undefined() || bound[0].none()) {
    if (left) text = StripLeft(text);
    if (right) text = StripRight(text);
  } else {
    ASSIGN_OR_RETURN(const std::string* set, TextOf(bound[0], "strip"));
    if (left) text = StripLeft(text, *set);
    if (right) text = StripRight(text, *set);
  }
  return Value::Of(std::string(text));
}

// Where white space ends, or begins, from `at` on.
size_t NextSpace(std::string_view text, size_t at, bool space) {
  while (at < text.size()) {
    std::string_view rest = text.substr(at);
    if (IsPythonSpace(TakeCharacter(rest)) == space) return at;
    at = text.size() - rest.size();
  }
  return at;
}

List Words(std::string_view text, int64_t most) {
  List words;
  for (size_t at = NextSpace(text, 0, false); at < text.size();) {
    const bool last = std::ssize(words) == most;
    const size_t end = last ? text.size() : NextSpace(text, at, true);
    words.push_back(Value::Of(std::string(text.substr(at, end - at))));
    at = NextSpace(text, end, false);
  }
  return words;
}

List Parts(std::string_view text, std::string_view separator, int64_t most) {
  List parts;
  for (size_t at = 0;;) {
    const size_t end = std::ssize(parts) == most ? text.npos : text.find(separator, at);
    parts.push_back(Value::Of(std::string(text.substr(at, end - at))));
    if (end == text.npos) return parts;
    at = end + separator.size();
  }
}

List PartsFromRight(std::string_view text, std::string_view separator, int64_t most) {
  List parts;
  for (size_t end = text.size();;) {
    const size_t found = std::ssize(parts) == most || end < separator.size()
                             ? text.npos
                             : text.rfind(separator, end - separator.size());
    const size_t begin = found == text.npos ? 0 : found + separator.size();
    parts.push_back(Value::Of(std::string(text.substr(begin, end - begin))));
    if (found == text.npos) break;
    end = found;
  }
  std::ranges::reverse(parts);
  return parts;
}

template <bool from_right>
Called Split(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "split", {"sep", "maxsplit"}));
  if (!budget.Spend(16 * std::ssize(*value.text()))) return Value();
  int64_t most = -1;
  if (!bound[1].undefined()) {
    ASSIGN_OR_RETURN(most, IntegerOf(bound[1], "split"));
  }
  if (most < 0) most = std::numeric_limits<int64_t>::max();
  if (bound[0].undefined() || bound[0].none()) {
    if (from_right && !bound[1].undefined()) return Invalid("rsplit(None, maxsplit) is not supported");
    return MakeList(Words(*value.text(), most));
  }
  ASSIGN_OR_RETURN(const std::string* separator, TextOf(bound[0], "split"));
  if (separator->empty()) return Invalid("split: empty separator");
  return MakeList(from_right ? PartsFromRight(*value.text(), *separator, most)
                             : Parts(*value.text(), *separator, most));
}

Called SplitLines(const Value& value, const Arguments& arguments, Budget& budget) {
  RETURN_IF_ERROR(Bind(arguments, "splitlines", {}).status());
  if (!budget.Spend(16 * std::ssize(*value.text()))) return Value();
  List lines;
  const std::string& text = *value.text();
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of("\r\n", at), text.size());
    lines.push_back(Value::Of(text.substr(at, end - at)));
    at = end + (text.compare(end, 2, "\r\n") == 0 ? 2 : 1);
  }
  return MakeList(std::move(lines));
}

template <bool at_start>
Called Begins(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "startswith and endswith", {"affix"}, 1));
  const List affixes = bound[0].sequence() ? bound[0].sequence()->items : List{bound[0]};
  for (const Value& one : affixes) {
    ASSIGN_OR_RETURN(const std::string* affix, TextOf(one, "startswith and endswith"));
    if (!budget.Spend(std::ssize(*affix))) break;
    if (at_start ? value.text()->starts_with(*affix) : value.text()->ends_with(*affix)) return Value(true);
  }
  return Value(false);
}

template <bool at_start>
Called Remove(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "removeprefix and removesuffix", {"affix"}, 1));
  ASSIGN_OR_RETURN(const std::string* affix, TextOf(bound[0], "removeprefix and removesuffix"));
  if (!budget.Spend(std::ssize(*value.text()))) return Value();
  std::string_view text = *value.text();
  if (at_start && text.starts_with(*affix)) text.remove_prefix(affix->size());
  if (!at_start && text.ends_with(*affix)) text.remove_suffix(affix->size());
  return Value::Of(std::string(text));
}

Called Replace(const Value& value, const Arguments& arguments, Budget& budget) {
  if (arguments.positional.size() > 1) {
    RETURN_IF_ERROR(TextOf(arguments.positional[0], "replace").status());
    RETURN_IF_ERROR(TextOf(arguments.positional[1], "replace").status());
  }
  return ReplaceFilter(value, arguments, budget);
}

template <bool from_right>
Called FindText(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "find", {"sub"}, 1));
  ASSIGN_OR_RETURN(const std::string* part, TextOf(bound[0], "find"));
  const std::string& text = *value.text();
  if (!budget.Spend(std::ssize(text))) return Value();
  const size_t at = from_right ? text.rfind(*part) : text.find(*part);
  return Value(at == text.npos ? int64_t{-1} : CodePoints(std::string_view(text).substr(0, at)));
}

Called CountText(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "count", {"sub"}, 1));
  ASSIGN_OR_RETURN(const std::string* part, TextOf(bound[0], "count"));
  if (part->empty()) return Invalid("count of an empty text");
  if (!budget.Spend(std::ssize(*value.text()))) return Value();
  int64_t count = 0;
  for (size_t at = value.text()->find(*part); at != std::string::npos;
       at = value.text()->find(*part, at + part->size()))
    ++count;
  return Value(count);
}

Called JoinText(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "join", {"iterable"}, 1));
  ASSIGN_OR_RETURN(const auto items, ItemsOf(bound[0], budget));
  std::string joined;
  for (size_t i = 0; i < items->items.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string* part, TextOf(items->items[i], "join"));
    if (!budget.Spend(std::ssize(*part) + std::ssize(*value.text()) + 1)) break;
    joined.append(i > 0 ? *value.text() : "").append(*part);
  }
  return Value::Of(std::move(joined));
}

template <bool (*holds)(char32_t)>
Called AllAre(const Value& value, const Arguments& arguments, Budget& budget) {
  RETURN_IF_ERROR(Bind(arguments, "the method", {}).status());
  if (!budget.Spend(std::ssize(*value.text()))) return Value();
  std::string_view rest = *value.text();
  bool all = !rest.empty();
  while (!rest.empty()) all &= holds(TakeCharacter(rest));
  return Value(all);
}
bool IsDigit(char32_t c) { return c >= '0' && c <= '9'; }

// ---------------------------------------------------------------------------------- of dicts and lists

Called DictItems(const Value& value, const Arguments& arguments, Budget& budget) {
  RETURN_IF_ERROR(Bind(arguments, "items", {}).status());
  return PairsOf(*value.mapping(), budget);
}

template <bool keys>
Called Halves(const Value& value, const Arguments& arguments, Budget& budget) {
  RETURN_IF_ERROR(Bind(arguments, "keys and values", {}).status());
  if (!budget.Spend(std::ssize(value.mapping()->entries))) return Value();
  List half;
  for (const auto& entry : value.mapping()->entries) half.push_back(keys ? entry.first : entry.second);
  return MakeList(std::move(half));
}

Called Get(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "get", {"key", "default"}, 1));
  if (const Value* found = Find(value.mapping()->entries, bound[0], budget)) return *found;
  const bool given = arguments.positional.size() + arguments.named.size() > 1;
  return given ? bound[1] : Value(None{});
}

Called Index(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "index", {"value"}, 1));
  const List& items = value.sequence()->items;
  const auto found =
      std::ranges::find_if(items, [&](const Value& one) { return Equal(one, bound[0], budget); });
  if (found == items.end()) return Invalid("index: the value is not in the list");
  return Value(int64_t{found - items.begin()});
}

Called CountItems(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "count", {"value"}, 1));
  return Value(int64_t{std::ranges::count_if(
      value.sequence()->items, [&](const Value& one) { return Equal(one, bound[0], budget); })});
}

// --------------------------------------------------------------------------------------------- of loop

Called Cycle(const Value& value, const Arguments& arguments, Budget&) {
  if (arguments.positional.empty()) return Invalid("loop.cycle() has nothing to go through");
  return arguments.positional[value.loop()->at % arguments.positional.size()];
}

Called Changed(const Value& value, const Arguments& arguments, Budget& budget) {
  std::vector<Value>& before = value.loop()->changed;
  bool same = before.size() == arguments.positional.size() && !before.empty();
  for (size_t i = 0; same && i < before.size(); ++i) same = Equal(before[i], arguments.positional[i], budget);
  for (const Value& one : arguments.positional) {
    if (!MayBeHeld(one)) return Invalid("loop.changed() of a ", TypeOf(one));
  }
  before = arguments.positional;
  return Value(!same);
}

enum class Of { kText, kDict, kList, kLoop };

struct Entry {
  Of of;
  std::string_view name;
  Method method;
};
constexpr Entry kMethods[] = {
    {Of::kText, "capitalize", Mapped<Capitalized>},
    {Of::kText, "count", CountText},
    {Of::kText, "endswith", Begins<false>},
    {Of::kText, "find", FindText<false>},
    {Of::kText, "isdigit", AllAre<IsDigit>},
    {Of::kText, "isspace", AllAre<IsPythonSpace>},
    {Of::kText, "join", JoinText},
    {Of::kText, "lower", Mapped<Lower>},
    {Of::kText, "lstrip", Strip<true, false>},
    {Of::kText, "removeprefix", Remove<true>},
    {Of::kText, "removesuffix", Remove<false>},
    {Of::kText, "replace", Replace},
    {Of::kText, "rfind", FindText<true>},
    {Of::kText, "rsplit", Split<true>},
    {Of::kText, "rstrip", Strip<false, true>},
    {Of::kText, "split", Split<false>},
    {Of::kText, "splitlines", SplitLines},
    {Of::kText, "startswith", Begins<true>},
    {Of::kText, "strip", Strip<true, true>},
    {Of::kText, "title", Mapped<Titled>},
    {Of::kText, "upper", Mapped<Upper>},
    {Of::kDict, "get", Get},
    {Of::kDict, "items", DictItems},
    {Of::kDict, "keys", Halves<true>},
    {Of::kDict, "values", Halves<false>},
    {Of::kList, "count", CountItems},
    {Of::kList, "index", Index},
    {Of::kLoop, "changed", Changed},
    {Of::kLoop, "cycle", Cycle},
};

bool IsOf(const Value& value, Of of) {
  switch (of) {
    case Of::kText:
      return value.text() != nullptr;
    case Of::kDict:
      return value.mapping() != nullptr;
    case Of::kList:
      return value.sequence() != nullptr;
    case Of::kLoop:
      return value.loop() != nullptr;
  }
  return false;
}

const Entry* FindMethod(const Value& value, std::string_view name) {
  const auto* found = std::ranges::find_if(
      kMethods, [&](const Entry& entry) { return entry.name == name && IsOf(value, entry.of); });
  return found == std::end(kMethods) ? nullptr : found;
}

}  // namespace

bool HasMethod(const Value& value, std::string_view name) { return FindMethod(value, name) != nullptr; }

std::string_view MethodName(std::string_view name) {
  const auto* found = std::ranges::find(kMethods, name, &Entry::name);
  return found == std::end(kMethods) ? std::string_view() : found->name;
}

absl::StatusOr<Value> CallMethod(const Value& value, std::string_view name, const Arguments& arguments,
                                 Budget& budget) {
  return FindMethod(value, name)->method(value, arguments, budget);
}

absl::StatusOr<Value> LoopMember(const Loop& loop, std::string_view name) {
  const List& items = loop.items->items;
  const int64_t at = loop.at, length = std::ssize(items);
  if (name == "index") return Value(at + 1);
  if (name == "index0") return Value(at);
  if (name == "revindex") return Value(length - at);
  if (name == "revindex0") return Value(length - at - 1);
  if (name == "length") return Value(length);
  if (name == "first") return Value(at == 0);
  if (name == "last") return Value(at + 1 == length);
  // Of recursive loops within one another, which are not supported.
  if (name == "depth") return Value(int64_t{1});
  if (name == "depth0") return Value(int64_t{0});
  if (name == "previtem") return at == 0 ? Value::MakeUndefined("there is no previous item") : items[at - 1];
  if (name == "nextitem")
    return at + 1 == length ? Value::MakeUndefined("there is no next item") : items[at + 1];
  return Value::MakeUndefined(Cat("'loop' has no attribute '", name, "'"));
}

}  // namespace heed::jinja
