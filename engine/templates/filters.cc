#include "engine/templates/filters.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "engine/base/status.h"
#include "engine/templates/characters.h"
#include "engine/templates/operators.h"
#include "engine/templates/text_filters.h"
#include "engine/templates/value_tests.h"

namespace heed::jinja {
namespace {

bool Given(const Value& value) { return !value.undefined() && !value.none(); }

Filtered Default(const Value& value, const Arguments& arguments, Budget&) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "default", {"default_value", "boolean"}));
  if (!value.undefined() && (Truth(value) || !Truth(bound[1]))) return value;
  const bool none = arguments.positional.empty() && arguments.named.empty();
  return none || bound[0].undefined() ? Value::Of("") : bound[0];
}

Filtered Length(const Value& value, const Arguments& arguments, Budget& budget) {
  RETURN_IF_ERROR(Bind(arguments, "length", {}).status());
  ASSIGN_OR_RETURN(const int64_t length, LengthOf(value, budget));
  return Value(length);
}

Filtered First(const Value& value, const Arguments& arguments, Budget& budget) {
  RETURN_IF_ERROR(Bind(arguments, "first", {}).status());
  ASSIGN_OR_RETURN(const auto items, ItemsOf(value, budget));
  return items->items.empty() ? Value::MakeUndefined("No first item, sequence was empty.")
                              : items->items.front();
}

Filtered Last(const Value& value, const Arguments& arguments, Budget& budget) {
  RETURN_IF_ERROR(Bind(arguments, "last", {}).status());
  ASSIGN_OR_RETURN(const auto items, ItemsOf(value, budget));
  return items->items.empty() ? Value::MakeUndefined("No last item, sequence was empty.")
                              : items->items.back();
}

// A list of its own, to be changed before it becomes a value.
absl::StatusOr<List> Copied(const Value& value, Budget& budget) {
  ASSIGN_OR_RETURN(const auto items, ItemsOf(value, budget));
  if (!budget.Spend(std::ssize(items->items))) return List();
  return items->items;
}

Filtered ListOf(const Value& value, const Arguments& arguments, Budget& budget) {
  RETURN_IF_ERROR(Bind(arguments, "list", {}).status());
  ASSIGN_OR_RETURN(List items, Copied(value, budget));
  return MakeList(std::move(items));
}

Filtered Items(const Value& value, const Arguments& arguments, Budget& budget) {
  RETURN_IF_ERROR(Bind(arguments, "items", {}).status());
  if (value.undefined()) return MakeList({});
  if (!value.mapping()) return Invalid("items: a ", TypeOf(value), " is no mapping");
  return PairsOf(*value.mapping(), budget);
}

Filtered Reverse(const Value& value, const Arguments& arguments, Budget& budget) {
  RETURN_IF_ERROR(Bind(arguments, "reverse", {}).status());
  ASSIGN_OR_RETURN(List items, Copied(value, budget));
  std::ranges::reverse(items);
  if (value.text() == nullptr) return MakeList(std::move(items));
  std::string text;
  for (const Value& character : items) text += *character.text();
  return Value::Of(std::move(text));
}

// By Jinja's rule for `attribute`: names and places with dots between.
Filtered AttributeOf(Value value, const Value& path, Budget& budget) {
  if (path.is_integer()) return ItemOf(value, path, budget);
  ASSIGN_OR_RETURN(const std::string* names, TextOf(path, "attribute"));
  for (absl::string_view name : absl::StrSplit(*names, '.')) {
    int64_t place = 0;
    const bool number = absl::SimpleAtoi(name, &place);
    ASSIGN_OR_RETURN(value, ItemOf(value, number ? Value(place) : Value::Of(std::string(name)), budget));
  }
  return value;
}

// What a filter that looks at an attribute of each item looks at.
absl::StatusOr<List> LookedAt(const List& items, const Value& attribute, bool case_sensitive,
                              Budget& budget) {
  List keys;
  for (const Value& item : items) {
    if (!budget.Spend(1)) break;
    Value key = item;
    if (Given(attribute)) {
      ASSIGN_OR_RETURN(key, AttributeOf(item, attribute, budget));
    }
    if (key.text() && !case_sensitive && budget.Spend(std::ssize(*key.text())))
      key = Value::Of(Lower(*key.text()));
    keys.push_back(std::move(key));
  }
  return keys;
}

Filtered Join(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "join", {"d", "attribute"}));
  ASSIGN_OR_RETURN(const auto items, ItemsOf(value, budget));
  ASSIGN_OR_RETURN(const List shown, LookedAt(items->items, bound[1], /*case_sensitive=*/true, budget));
  const std::string between = Str(bound[0], budget);
  std::string text;
  for (size_t i = 0; i < shown.size() && budget.Spend(std::ssize(between) + 1); ++i)
    text.append(i > 0 ? between : "").append(Str(shown[i], budget));
  return Value::Of(std::move(text));
}

// The places of the items in order. Merge sort, so that what cannot be compared ends it.
absl::Status SortPlaces(std::vector<size_t>& places, const List& keys, bool down, Budget& budget) {
  std::vector<size_t> merged(places.size());
  for (size_t width = 1; width < places.size(); width *= 2) {
    for (size_t low = 0; low < places.size(); low += 2 * width) {
      const size_t middle = std::min(low + width, places.size()),
                   high = std::min(low + 2 * width, places.size());
      size_t a = low, b = middle;
      for (size_t out = low; out < high; ++out) {
        bool second = a == middle;
        if (a < middle && b < high) {
          const Value &left = keys[places[a]], &right = keys[places[b]];
          ASSIGN_OR_RETURN(second, down ? Less(left, right, budget) : Less(right, left, budget));
        }
        merged[out] = second ? places[b++] : places[a++];
      }
    }
    places.swap(merged);
  }
  return absl::OkStatus();
}

Filtered Sorted(const List& items, const List& keys, bool down, Budget& budget) {
  if (budget.spent()) return Value();
  std::vector<size_t> places(items.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = i;
  RETURN_IF_ERROR(SortPlaces(places, keys, down, budget));
  List sorted;
  for (const size_t place : places) sorted.push_back(items[place]);
  return MakeList(std::move(sorted));
}

Filtered Sort(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "sort", {"reverse", "case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const auto items, ItemsOf(value, budget));
  ASSIGN_OR_RETURN(const List keys, LookedAt(items->items, bound[2], Truth(bound[1]), budget));
  return Sorted(items->items, keys, Truth(bound[0]), budget);
}

Filtered DictSort(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "dictsort", {"case_sensitive", "by", "reverse"}));
  if (!value.mapping()) return Invalid("dictsort: a ", TypeOf(value), " is no mapping");
  const bool by_value = bound[1].text() && *bound[1].text() == "value";
  ASSIGN_OR_RETURN(const Value pairs, PairsOf(*value.mapping(), budget));
  const List& items = pairs.sequence()->items;
  ASSIGN_OR_RETURN(const List keys, LookedAt(items, Value(int64_t{by_value}), Truth(bound[0]), budget));
  return Sorted(items, keys, Truth(bound[2]), budget);
}

Filtered Extreme(const Value& value, const Arguments& arguments, Budget& budget, bool largest) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "max and min", {"case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const auto items, ItemsOf(value, budget));
  ASSIGN_OR_RETURN(const List keys, LookedAt(items->items, bound[1], Truth(bound[0]), budget));
  if (keys.empty()) return Value::MakeUndefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  for (size_t i = 1; i < keys.size(); ++i) {
    const Value &low = largest ? keys[best] : keys[i], &high = largest ? keys[i] : keys[best];
    ASSIGN_OR_RETURN(const bool better, Less(low, high, budget));
    if (better) best = i;
  }
  return items->items[best];
}
Filtered Max(const Value& value, const Arguments& arguments, Budget& budget) {
  return Extreme(value, arguments, budget, /*largest=*/true);
}
Filtered Min(const Value& value, const Arguments& arguments, Budget& budget) {
  return Extreme(value, arguments, budget, /*largest=*/false);
}

Filtered Sum(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "sum", {"attribute", "start"}));
  ASSIGN_OR_RETURN(const auto items, ItemsOf(value, budget));
  ASSIGN_OR_RETURN(const List parts, LookedAt(items->items, bound[0], /*case_sensitive=*/true, budget));
  Value sum = bound[1].undefined() ? Value(int64_t{0}) : bound[1];
  for (const Value& part : parts) {
    if (budget.spent()) break;
    ASSIGN_OR_RETURN(sum, Operate("+", sum, part, budget));
  }
  return sum;
}

Filtered Unique(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "unique", {"case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const auto items, ItemsOf(value, budget));
  ASSIGN_OR_RETURN(const List keys, LookedAt(items->items, bound[1], Truth(bound[0]), budget));
  List kept, seen;
  for (size_t i = 0; i < keys.size() && !budget.spent(); ++i) {
    if (std::ranges::any_of(seen, [&](const Value& one) { return Equal(one, keys[i], budget); })) continue;
    seen.push_back(keys[i]);
    kept.push_back(items->items[i]);
  }
  return MakeList(std::move(kept));
}

Filtered Map(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const auto items, ItemsOf(value, budget));
  Arguments rest = arguments;
  Filter filter = nullptr;
  Value attribute, fallback;
  if (rest.positional.empty()) {
    ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "map", {"attribute", "default"}, 1));
    attribute = bound[0];
    fallback = bound[1];
  } else {
    ASSIGN_OR_RETURN(const std::string* name, TextOf(rest.positional[0], "map"));
    filter = FindFilter(*name);
    if (filter == nullptr) return Invalid("map: there is no filter '", *name, "'");
    rest.positional.erase(rest.positional.begin());
  }
  List mapped;
  for (const Value& item : items->items) {
    if (!budget.Spend(1)) break;
    ASSIGN_OR_RETURN(Value one, filter ? filter(item, rest, budget) : AttributeOf(item, attribute, budget));
    mapped.push_back(one.undefined() && !fallback.undefined() ? fallback : std::move(one));
  }
  return MakeList(std::move(mapped));
}

// select, reject, and with an attribute before the test: selectattr, rejectattr.
Filtered Choose(const Value& value, const Arguments& arguments, Budget& budget, bool of_attribute,
                bool keeps) {
  ASSIGN_OR_RETURN(const auto items, ItemsOf(value, budget));
  Arguments rest = arguments;
  Value attribute;
  if (of_attribute) {
    if (rest.positional.empty()) return Invalid("selectattr and rejectattr need an attribute");
    attribute = rest.positional[0];
    rest.positional.erase(rest.positional.begin());
  }
  ValueTest test = nullptr;
  if (!rest.positional.empty()) {
    ASSIGN_OR_RETURN(const std::string* name, TextOf(rest.positional[0], "select"));
    test = FindTest(*name);
    if (test == nullptr) return Invalid("there is no test '", *name, "'");
    rest.positional.erase(rest.positional.begin());
  }
  ASSIGN_OR_RETURN(const List keys, LookedAt(items->items, attribute, /*case_sensitive=*/true, budget));
  List chosen;
  for (size_t i = 0; i < keys.size() && !budget.spent(); ++i) {
    ASSIGN_OR_RETURN(const bool holds,
                     test ? test(keys[i], rest, budget) : absl::StatusOr<bool>(Truth(keys[i])));
    if (holds == keeps) chosen.push_back(items->items[i]);
  }
  return MakeList(std::move(chosen));
}
template <bool of_attribute, bool keeps>
Filtered Chosen(const Value& value, const Arguments& arguments, Budget& budget) {
  return Choose(value, arguments, budget, of_attribute, keeps);
}

Filtered Int(const Value& value, const Arguments& arguments, Budget&) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "int", {"default", "base"}));
  if (!bound[1].undefined()) return Invalid("int: a base is not supported");
  const Value fallback = bound[0].undefined() ? Value(int64_t{0}) : bound[0];
  if (value.is_integer()) return Value(value.integer());
  double number = NAN;
  if (value.text()) {
    int64_t integer = 0;
    if (absl::SimpleAtoi(*value.text(), &integer)) return Value(integer);
    if (!absl::SimpleAtod(*value.text(), &number)) return fallback;
  } else if (value.is_number()) {
    number = value.number();
  }
  return std::abs(number) < 9e18 ? Value(static_cast<int64_t>(number)) : fallback;
}

Filtered Float(const Value& value, const Arguments& arguments, Budget&) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "float", {"default"}));
  if (value.is_number()) return Value(value.number());
  double number = 0;
  if (value.text() && absl::SimpleAtod(*value.text(), &number)) return Value(number);
  return bound[0].undefined() ? Value(0.0) : bound[0];
}

Filtered Abs(const Value& value, const Arguments& arguments, Budget&) {
  RETURN_IF_ERROR(Bind(arguments, "abs", {}).status());
  if (!value.is_number()) return Invalid("abs: a ", TypeOf(value), " is no number");
  if (!value.is_integer()) return Value(std::abs(value.number()));
  if (value.integer() == INT64_MIN) return Invalid("abs: the number is too large");
  return Value(std::abs(value.integer()));
}

Filtered Round(const Value& value, const Arguments& arguments, Budget&) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "round", {"precision", "method"}));
  if (!value.is_number()) return Invalid("round: a ", TypeOf(value), " is no number");
  const std::string method = bound[1].text() ? *bound[1].text() : "common";
  int64_t precision = 0;
  if (Given(bound[0])) {
    ASSIGN_OR_RETURN(precision, IntegerOf(bound[0], "round"));
  }
  if (precision < 0 || precision > 15) return Invalid("round: precision ", precision, " is not 0 to 15");
  const double scale = std::pow(10.0, static_cast<double>(precision)), scaled = value.number() * scale;
  if (method == "ceil") return Value(std::ceil(scaled) / scale);
  if (method == "floor") return Value(std::floor(scaled) / scale);
  if (method != "common") return Invalid("round: method '", method, "' is none of common, ceil and floor");
  return Value(std::nearbyint(scaled) / scale);
}

Filtered Safe(const Value& value, const Arguments& arguments, Budget&) {
  RETURN_IF_ERROR(Bind(arguments, "safe", {}).status());
  return value;  // nothing is escaped here
}

struct Entry {
  std::string_view name;
  Filter filter;
};
constexpr Entry kFilters[] = {
    {"abs", Abs},
    {"capitalize", CapitalizeFilter},
    {"count", Length},
    {"d", Default},
    {"default", Default},
    {"dictsort", DictSort},
    {"first", First},
    {"float", Float},
    {"format", FormatFilter},
    {"indent", IndentFilter},
    {"int", Int},
    {"items", Items},
    {"join", Join},
    {"last", Last},
    {"length", Length},
    {"list", ListOf},
    {"lower", LowerFilter},
    {"map", Map},
    {"max", Max},
    {"min", Min},
    {"reject", Chosen<false, false>},
    {"rejectattr", Chosen<true, false>},
    {"replace", ReplaceFilter},
    {"reverse", Reverse},
    {"round", Round},
    {"safe", Safe},
    {"select", Chosen<false, true>},
    {"selectattr", Chosen<true, true>},
    {"sort", Sort},
    {"string", StringFilter},
    {"sum", Sum},
    {"title", TitleFilter},
    {"tojson", ToJsonFilter},
    {"trim", TrimFilter},
    {"unique", Unique},
    {"upper", UpperFilter},
    {"wordcount", WordCountFilter},
};

}  // namespace

Filter FindFilter(std::string_view name) {
  const auto* found = std::ranges::find(kFilters, name, &Entry::name);
  return found == std::end(kFilters) ? nullptr : found->filter;
}

bool TakesFilter(std::string_view name) { return name == "map"; }

bool TakesTest(std::string_view name, size_t* place) {
  *place = name.ends_with("attr") ? 1 : 0;
  return name.starts_with("select") || name.starts_with("reject");
}

}  // namespace heed::jinja
