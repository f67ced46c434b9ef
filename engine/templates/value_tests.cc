#include "engine/templates/value_tests.h"

#include <algorithm>
#include <iterator>

#include "engine/base/status.h"
#include "engine/templates/characters.h"

namespace heed::jinja {
namespace {

using Answer = absl::StatusOr<bool>;

// A test that asks for nothing beside the value.
template <bool (*asks)(const Value&)>
Answer Plain(const Value& value, const Arguments& arguments, Budget&) {
  if (!arguments.positional.empty() || !arguments.named.empty()) return Invalid("the test takes no argument");
  return asks(value);
}

absl::StatusOr<Value> Other(const Arguments& arguments) {
  ASSIGN_OR_RETURN(std::vector<Value> bound, Bind(arguments, "the test", {"other"}, 1));
  return std::move(bound[0]);
}

bool Defined(const Value& value) { return !value.undefined(); }
bool IsUndefined(const Value& value) { return value.undefined(); }
bool IsNone(const Value& value) { return value.none(); }
bool Boolean(const Value& value) { return value.As<bool>() != nullptr; }
bool True(const Value& value) { return value.As<bool>() && *value.As<bool>(); }
bool False(const Value& value) { return value.As<bool>() && !*value.As<bool>(); }
bool String(const Value& value) { return value.text() != nullptr; }
bool Number(const Value& value) { return value.is_number(); }
bool Integer(const Value& value) { return value.As<int64_t>() != nullptr; }
bool Float(const Value& value) { return value.As<double>() != nullptr; }
bool IsMapping(const Value& value) { return value.mapping() != nullptr; }
bool IsSequence(const Value& value) {
  return value.text() || value.sequence() || value.mapping() || value.undefined();
}
bool Iterable(const Value& value) { return IsSequence(value) || value.loop(); }
// Jinja's Undefined is: it fails only when it is called.
bool Callable(const Value& value) { return value.As<Function>() || value.undefined(); }
bool Lowered(const Value& value) {
  const std::string* text = value.text();
  return text && Lower(*text) == *text && Upper(*text) != *text;
}
bool Uppered(const Value& value) {
  const std::string* text = value.text();
  return text && Upper(*text) == *text && Lower(*text) != *text;
}

Answer Same(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const Value other, Other(arguments));
  // One object is one type, too: 1 is not true.
  return TypeOf(value) == TypeOf(other) && Equal(value, other, budget);
}
Answer Equals(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const Value other, Other(arguments));
  return Equal(value, other, budget);
}
Answer Differs(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const Value other, Other(arguments));
  return !Equal(value, other, budget);
}
Answer IsLess(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const Value other, Other(arguments));
  return Less(value, other, budget);
}
Answer IsGreater(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const Value other, Other(arguments));
  return Less(other, value, budget);
}
Answer AtMost(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const bool greater, IsGreater(value, arguments, budget));
  return !greater;
}
Answer AtLeast(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const bool less, IsLess(value, arguments, budget));
  return !less;
}
Answer In(const Value& value, const Arguments& arguments, Budget& budget) {
  ASSIGN_OR_RETURN(const Value container, Other(arguments));
  return Contains(container, value, budget);
}
Answer Divisible(const Value& value, const Arguments& arguments, Budget&) {
  ASSIGN_OR_RETURN(const Value other, Other(arguments));
  ASSIGN_OR_RETURN(const int64_t number, IntegerOf(value, "divisibleby"));
  ASSIGN_OR_RETURN(const int64_t by, IntegerOf(other, "divisibleby"));
  if (by == 0) return Invalid("divisibleby 0");
  return by == -1 || number % by == 0;
}
Answer Odd(const Value& value, const Arguments&, Budget&) {
  ASSIGN_OR_RETURN(const int64_t number, IntegerOf(value, "odd"));
  return number % 2 != 0;
}
Answer Even(const Value& value, const Arguments&, Budget&) {
  ASSIGN_OR_RETURN(const int64_t number, IntegerOf(value, "even"));
  return number % 2 == 0;
}

struct Entry {
  std::string_view name;
  ValueTest test;
};
constexpr Entry kTests[] = {
    {"defined", Plain<Defined>},
    {"undefined", Plain<IsUndefined>},
    {"none", Plain<IsNone>},
    {"boolean", Plain<Boolean>},
    {"true", Plain<True>},
    {"false", Plain<False>},
    {"string", Plain<String>},
    {"number", Plain<Number>},
    {"integer", Plain<Integer>},
    {"float", Plain<Float>},
    {"mapping", Plain<IsMapping>},
    {"sequence", Plain<IsSequence>},
    {"iterable", Plain<Iterable>},
    {"callable", Plain<Callable>},
    {"lower", Plain<Lowered>},
    {"upper", Plain<Uppered>},
    {"sameas", Same},
    {"in", In},
    {"eq", Equals},
    {"equalto", Equals},
    {"==", Equals},
    {"ne", Differs},
    {"!=", Differs},
    {"lt", IsLess},
    {"lessthan", IsLess},
    {"<", IsLess},
    {"gt", IsGreater},
    {"greaterthan", IsGreater},
    {">", IsGreater},
    {"le", AtMost},
    {"<=", AtMost},
    {"ge", AtLeast},
    {">=", AtLeast},
    {"divisibleby", Divisible},
    {"odd", Odd},
    {"even", Even},
};

}  // namespace

ValueTest FindTest(std::string_view name) {
  const auto* found = std::ranges::find(kTests, name, &Entry::name);
  return found == std::end(kTests) ? nullptr : found->test;
}

absl::StatusOr<bool> Contains(const Value& container, const Value& item, Budget& budget) {
  if (container.undefined()) return false;
  if (const std::string* text = container.text()) {
    ASSIGN_OR_RETURN(const std::string* part, TextOf(item, "'in' a text"));
    return budget.Spend(std::ssize(*text)) && text->find(*part) != text->npos;
  }
  if (container.mapping()) return Find(container.mapping()->entries, item, budget) != nullptr;
  ASSIGN_OR_RETURN(const auto items, ItemsOf(container, budget));
  return std::ranges::any_of(items->items, [&](const Value& one) { return Equal(one, item, budget); });
}

}  // namespace heed::jinja
