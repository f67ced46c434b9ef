#include "engine/templates/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/base/status.h"

namespace heed::jinja {
namespace {

constexpr int kDeepest = 64;

template <typename T>
auto Behind(const Value& value) {
  const auto* held = value.As<T>();
  return held ? held->get() : nullptr;
}

int DepthOf(const Value& value) {
  if (value.sequence()) return value.sequence()->depth;
  if (value.mapping()) return value.mapping()->depth;
  return 0;
}

absl::Status CheckHeld(const Value& value, int& depth) {
  if (!MayBeHeld(value)) return Invalid("a ", TypeOf(value), " cannot be part of a list or dict");
  depth = std::max(depth, DepthOf(value) + 1);
  if (depth > kDeepest) return Invalid("lists and dicts are nested deeper than ", kDeepest, " levels");
  return absl::OkStatus();
}

bool EqualItems(const List& a, const List& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Equal(a[i], b[i], budget)) return false;
  }
  return true;
}

bool EqualEntries(const Dict& a, const Dict& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a) {
    const Value* other = Find(b, key, budget);
    if (other == nullptr || !Equal(value, *other, budget)) return false;
  }
  return true;
}

}  // namespace

Value Value::MakeUndefined(std::string why) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(why))});
}

const std::string* Value::text() const { return Behind<Text>(*this); }
const Sequence* Value::sequence() const { return Behind<std::shared_ptr<const Sequence>>(*this); }
const Mapping* Value::mapping() const { return Behind<std::shared_ptr<const Mapping>>(*this); }
Namespace* Value::names() const { return Behind<std::shared_ptr<Namespace>>(*this); }
Loop* Value::loop() const { return Behind<std::shared_ptr<Loop>>(*this); }

int64_t Value::integer() const {
  if (const bool* truth = As<bool>()) return *truth ? 1 : 0;
  return *As<int64_t>();
}

double Value::number() const {
  if (const double* number = As<double>()) return *number;
  return static_cast<double>(integer());
}

// What changes, or is held by what changes, is never within another value, so that no circle arises.
bool MayBeHeld(const Value& value) { return value.names() == nullptr && value.loop() == nullptr; }

absl::StatusOr<Value> MakeList(List items, bool is_tuple) {
  int depth = 1;
  for (const Value& item : items) RETURN_IF_ERROR(CheckHeld(item, depth));
  return Value(std::make_shared<const Sequence>(
      Sequence{.items = std::move(items), .is_tuple = is_tuple, .depth = depth}));
}

absl::StatusOr<Value> MakeDict(Dict entries) {
  int depth = 1;
  for (const auto& [key, value] : entries) {
    if (!key.text() && !key.is_number() && !key.none())
      return Invalid("a ", TypeOf(key), " cannot be the key of a dict");
    RETURN_IF_ERROR(CheckHeld(value, depth));
  }
  return Value(std::make_shared<const Mapping>(Mapping{.entries = std::move(entries), .depth = depth}));
}

const Value* Find(const Dict& entries, const Value& key, Budget& budget) {
  for (const auto& [name, value] : entries) {
    if (Equal(name, key, budget)) return &value;
  }
  return nullptr;
}

void Put(Dict& entries, Value key, Value value, Budget& budget) {
  const auto there =
      std::ranges::find_if(entries, [&](const auto& entry) { return Equal(entry.first, key, budget); });
  if (there != entries.end()) {
    there->second = std::move(value);
  } else {
    entries.emplace_back(std::move(key), std::move(value));
  }
}

std::string TypeOf(const Value& value) {
  if (value.undefined()) return "Undefined";
  if (value.none()) return "None";
  if (value.As<bool>()) return "bool object";
  if (value.As<int64_t>()) return "int object";
  if (value.As<double>()) return "float object";
  if (value.text()) return "str object";
  if (const Sequence* sequence = value.sequence()) return sequence->is_tuple ? "tuple object" : "list object";
  if (value.mapping()) return "dict object";
  if (value.names()) return "namespace";
  return value.loop() ? "loop" : "function";
}

bool Truth(const Value& value) {
  if (value.undefined() || value.none()) return false;
  if (value.is_number()) return value.number() != 0;
  if (value.text()) return !value.text()->empty();
  if (value.sequence()) return !value.sequence()->items.empty();
  if (value.mapping()) return !value.mapping()->entries.empty();
  return true;
}

bool Equal(const Value& a, const Value& b, Budget& budget) {
  if (!budget.Spend(1)) return false;
  if (a.is_integer() && b.is_integer()) return a.integer() == b.integer();
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.text() && b.text())
    return a.text()->size() == b.text()->size() && budget.Spend(std::ssize(*a.text())) &&
           *a.text() == *b.text();
  if (a.sequence() && b.sequence()) {
    return a.sequence()->is_tuple == b.sequence()->is_tuple &&
           EqualItems(a.sequence()->items, b.sequence()->items, budget);
  }
  if (a.mapping() && b.mapping()) return EqualEntries(a.mapping()->entries, b.mapping()->entries, budget);
  if (a.names() || b.names()) return a.names() == b.names();
  if (a.loop() || b.loop()) return a.loop() == b.loop();
  const Function *f = a.As<Function>(), *g = b.As<Function>();
  if (f && g) return f->macro == g->macro && f->name == g->name;
  return (a.undefined() && b.undefined()) || (a.none() && b.none());
}

absl::StatusOr<bool> Less(const Value& a, const Value& b, Budget& budget) {
  budget.Spend(1);
  if (a.is_integer() && b.is_integer()) return a.integer() < b.integer();
  if (a.is_number() && b.is_number()) return a.number() < b.number();
  // The order of UTF-8's bytes is that of its characters.
  if (a.text() && b.text())
    return budget.Spend(std::ssize(*a.text()) + std::ssize(*b.text())) && *a.text() < *b.text();
  if (a.sequence() && b.sequence() && a.sequence()->is_tuple == b.sequence()->is_tuple) {
    const List &left = a.sequence()->items, &right = b.sequence()->items;
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (!Equal(left[i], right[i], budget)) return Less(left[i], right[i], budget);
    }
    return left.size() < right.size();
  }
  if (a.undefined()) return Invalid(a.As<Undefined>()->message());
  if (b.undefined()) return Invalid(b.As<Undefined>()->message());
  return Invalid("a ", TypeOf(a), " and a ", TypeOf(b), " have no order");
}

// Digits as few as tell the number from all others, laid out as Python's repr() does.
std::string ShownNumber(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, std::end(buffer), number, std::chars_format::scientific).ptr;
  std::string_view shortest(buffer, end - buffer);
  const size_t e = shortest.find('e');
  int exponent = 0;
  const char* from = shortest.data() + e + 1 + (shortest[e + 1] == '+');
  std::from_chars(from, end, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(shortest);
  const auto fixed = std::to_chars(buffer, std::end(buffer), number, std::chars_format::fixed).ptr;
  std::string text(buffer, fixed - buffer);
  return text.find('.') == text.npos ? text + ".0" : text;
}

}  // namespace heed::jinja
