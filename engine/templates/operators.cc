#include "engine/templates/operators.h"

#include <algorithm>
#include <cmath>

#include "engine/base/status.h"
#include "engine/templates/arguments.h"
#include "engine/templates/characters.h"
#include "engine/templates/methods.h"
#include "engine/templates/text_filters.h"

namespace heed::jinja {
namespace {

absl::Status Beyond() { return Invalid("a whole number is beyond 64 bits"); }

absl::StatusOr<Value> Power(int64_t base, int64_t exponent) {
  if (exponent < 0) return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  int64_t result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1 && __builtin_mul_overflow(result, base, &result)) return Beyond();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return Beyond();
  }
  return Value(result);
}

// Python's: towards minus infinity, and the remainder has the divisor's sign.
absl::StatusOr<Value> Divide(int64_t a, int64_t b, bool remainder) {
  if (b == 0) return Invalid("division by zero");
  if (b == -1 && a == INT64_MIN) return Beyond();
  const bool down = a % b != 0 && (a < 0) != (b < 0);
  return Value(remainder ? a % b + (down ? b : 0) : a / b - (down ? 1 : 0));
}

absl::StatusOr<Value> Integers(std::string_view name, int64_t a, int64_t b) {
  int64_t result = 0;
  bool beyond = false;
  if (name == "+") {
    beyond = __builtin_add_overflow(a, b, &result);
  } else if (name == "-") {
    beyond = __builtin_sub_overflow(a, b, &result);
  } else if (name == "*") {
    beyond = __builtin_mul_overflow(a, b, &result);
  } else if (name == "**") {
    return Power(a, b);
  } else {
    return Divide(a, b, name == "%");
  }
  if (beyond) return Beyond();
  return Value(result);
}

absl::StatusOr<Value> Doubles(std::string_view name, double a, double b) {
  if (name == "+") return Value(a + b);
  if (name == "-") return Value(a - b);
  if (name == "*") return Value(a * b);
  if (name == "**") return Value(std::pow(a, b));
  if (b == 0) return Invalid("division by zero");
  if (name == "/") return Value(a / b);
  if (name == "//") return Value(std::floor(a / b));
  const double rest = std::fmod(a, b);
  return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

absl::StatusOr<Value> Repeated(const Value& value, int64_t times, Budget& budget) {
  times = std::max<int64_t>(times, 0);
  ASSIGN_OR_RETURN(const int64_t length, LengthOf(value, budget));
  const int64_t size = value.text() ? std::ssize(*value.text()) : length;
  int64_t all = 0;
  if (__builtin_mul_overflow(times, std::max<int64_t>(size, 1), &all) || !budget.Spend(all)) {
    budget.Spend(INT64_MAX);
    return Value();
  }
  if (const std::string* text = value.text()) {
    std::string repeated;
    for (int64_t i = 0; i < times && size > 0; ++i) repeated += *text;
    return Value::Of(std::move(repeated));
  }
  List items;
  for (int64_t i = 0; i < times && size > 0; ++i)
    items.insert(items.end(), value.sequence()->items.begin(), value.sequence()->items.end());
  return MakeList(std::move(items), value.sequence()->is_tuple);
}

absl::StatusOr<Value> Joined(const Sequence& a, const Sequence& b, Budget& budget) {
  if (!budget.Spend(std::ssize(a.items) + std::ssize(b.items))) return Value();
  List items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return MakeList(std::move(items), a.is_tuple);
}

// A number's place among `size`: negative ones count from the end. -1: none.
int64_t PlaceOf(int64_t index, int64_t size) {
  if (index < 0) index += size;
  return index < size ? std::max<int64_t>(index, -1) : -1;
}

Value Missing(const Value& value, const Value& key, Budget& budget) {
  if (key.is_integer() && (value.sequence() || value.text()))
    return Value::MakeUndefined(Cat(TypeOf(value), " has no element ", key.integer()));
  const std::string shown = Repr(key, budget);
  return Value::MakeUndefined(Cat("'", TypeOf(value), "' has no attribute ", shown));
}

absl::StatusOr<int64_t> Bound(const Value& value, int64_t fallback) {
  if (value.undefined() || value.none()) return fallback;
  return IntegerOf(value, "a slice");
}

// Which places a slice takes, in its order.
absl::StatusOr<std::vector<int64_t>> Taken(const std::array<Value, 3>& bounds, int64_t size) {
  ASSIGN_OR_RETURN(const int64_t step, Bound(bounds[2], 1));
  if (step == 0) return Invalid("a slice's step is 0");
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto clamped = [&](int64_t bound) {
    return std::clamp(bound < 0 ? std::max(bound, -size - 1) + size : bound, low, high);
  };
  int64_t begin = step > 0 ? low : high, end = step > 0 ? high : low;
  if (!bounds[0].undefined() && !bounds[0].none()) {
    ASSIGN_OR_RETURN(const int64_t given, Bound(bounds[0], 0));
    begin = clamped(given);
  }
  if (!bounds[1].undefined() && !bounds[1].none()) {
    ASSIGN_OR_RETURN(const int64_t given, Bound(bounds[1], 0));
    end = clamped(given);
  }
  std::vector<int64_t> places;
  const int64_t stride = std::clamp<int64_t>(step, -size - 1, size + 1);  // no further than all of it
  for (int64_t i = begin; stride > 0 ? i < end : i > end; i += stride) places.push_back(i);
  return places;
}

}  // namespace

absl::StatusOr<Value> Operate(std::string_view name, const Value& left, const Value& right, Budget& budget) {
  if (left.is_integer() && right.is_integer() && name != "/")
    return Integers(name, left.integer(), right.integer());
  if (left.is_number() && right.is_number()) return Doubles(name, left.number(), right.number());
  for (const Value* value : {&left, &right})
    if (value->undefined()) return Invalid(value->As<Undefined>()->message());
  if (name == "+" && left.text() && right.text()) {
    if (!budget.Spend(std::ssize(*left.text()) + std::ssize(*right.text()))) return Value();
    return Value::Of(*left.text() + *right.text());
  }
  if (name == "+" && left.sequence() && right.sequence() &&
      left.sequence()->is_tuple == right.sequence()->is_tuple) {
    return Joined(*left.sequence(), *right.sequence(), budget);
  }
  if (name == "*" && (left.text() || left.sequence()) && right.is_integer())
    return Repeated(left, right.integer(), budget);
  if (name == "*" && (right.text() || right.sequence()) && left.is_integer())
    return Repeated(right, left.integer(), budget);
  if (name == "%" && left.text()) {
    const bool several = right.sequence() && right.sequence()->is_tuple;
    ASSIGN_OR_RETURN(std::string text,
                     Formatted(*left.text(), several ? right.sequence()->items : List{right}, budget));
    return Value::Of(std::move(text));
  }
  return Invalid("'", name, "' of a ", TypeOf(left), " and a ", TypeOf(right));
}

absl::StatusOr<Value> Negative(const Value& value) {
  if (value.undefined()) return Invalid(value.As<Undefined>()->message());
  if (!value.is_number()) return Invalid("'-' of a ", TypeOf(value));
  if (value.is_integer()) return Integers("-", 0, value.integer());
  return Value(-value.number());
}

absl::StatusOr<Value> ItemOf(const Value& value, const Value& key, Budget& budget) {
  if (value.undefined()) return Invalid(value.As<Undefined>()->message());
  budget.Spend(1);
  if (value.mapping()) {
    if (const Value* found = Find(value.mapping()->entries, key, budget)) return *found;
  }
  if (key.is_integer() && value.sequence()) {
    const List& items = value.sequence()->items;
    const int64_t place = PlaceOf(key.integer(), std::ssize(items));
    return place < 0 ? Missing(value, key, budget) : items[place];
  }
  if (key.is_integer() && value.text()) {
    if (!budget.Spend(8 * std::ssize(*value.text()))) return Value();
    const std::vector<size_t> places = Places(*value.text());
    const int64_t place = PlaceOf(key.integer(), std::ssize(places) - 1);
    if (place < 0) return Missing(value, key, budget);
    return Value::Of(value.text()->substr(places[place], places[place + 1] - places[place]));
  }
  if (key.text() && !value.mapping()) return MemberOf(value, *key.text(), budget);
  if (key.text() && HasMethod(value, *key.text())) return Value(Function{.name = MethodName(*key.text())});
  return Missing(value, key, budget);
}

absl::StatusOr<Value> MemberOf(const Value& value, std::string_view name, Budget& budget) {
  if (value.undefined()) return Invalid(value.As<Undefined>()->message());
  budget.Spend(1);
  if (HasMethod(value, name)) return Value(Function{.name = MethodName(name)});
  const Value key = Value::Of(std::string(name));
  if (value.mapping()) {
    const Value* found = Find(value.mapping()->entries, key, budget);
    return found ? *found : Missing(value, key, budget);
  }
  if (const Namespace* names = value.names()) {
    const auto found = names->attributes.find(name);
    return found == names->attributes.end() ? Missing(value, key, budget) : found->second;
  }
  if (value.loop()) return LoopMember(*value.loop(), name);
  return Missing(value, key, budget);
}

absl::StatusOr<Value> SliceOf(const Value& value, const std::array<Value, 3>& bounds, Budget& budget) {
  if (value.undefined()) return Invalid(value.As<Undefined>()->message());
  if (!value.text() && !value.sequence()) return Invalid("a slice of a ", TypeOf(value));
  const int64_t bytes =
      value.text() ? 8 * std::ssize(*value.text()) : 8 * std::ssize(value.sequence()->items);
  if (!budget.Spend(bytes)) return Value();
  if (value.sequence()) {
    const List& items = value.sequence()->items;
    ASSIGN_OR_RETURN(const auto taken, Taken(bounds, std::ssize(items)));
    List slice;
    for (const int64_t place : taken) slice.push_back(items[place]);
    return MakeList(std::move(slice), value.sequence()->is_tuple);
  }
  const std::vector<size_t> places = Places(*value.text());
  ASSIGN_OR_RETURN(const auto taken, Taken(bounds, std::ssize(places) - 1));
  std::string slice;
  for (const int64_t place : taken)
    slice.append(*value.text(), places[place], places[place + 1] - places[place]);
  return Value::Of(std::move(slice));
}

absl::StatusOr<Value> PairsOf(const Mapping& mapping, Budget& budget) {
  if (!budget.Spend(4 * std::ssize(mapping.entries))) return Value();
  List pairs;
  for (const auto& [key, value] : mapping.entries) {
    ASSIGN_OR_RETURN(Value pair, MakeList({key, value}, /*is_tuple=*/true));
    pairs.push_back(std::move(pair));
  }
  return MakeList(std::move(pairs));
}

}  // namespace heed::jinja
