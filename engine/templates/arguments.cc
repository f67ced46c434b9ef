#include "engine/templates/arguments.h"

#include <algorithm>

#include "engine/base/status.h"
#include "engine/templates/characters.h"
#include "engine/text/tokenizer.h"

namespace heed::jinja {

absl::StatusOr<std::vector<Value>> Bind(const Arguments& given, std::string_view what,
                                        std::initializer_list<std::string_view> names, size_t required) {
  if (given.positional.size() > names.size())
    return Invalid(what, " takes at most ", names.size(), " arguments, not ", given.positional.size());
  std::vector<Value> bound = given.positional;
  std::vector<bool> there(names.size());
  std::fill_n(there.begin(), bound.size(), true);
  bound.resize(names.size());
  for (const auto& [name, value] : given.named) {
    const size_t at = std::ranges::find(names, name) - names.begin();
    if (at == names.size()) return Invalid(what, " has no argument '", name, "'");
    if (there[at]) return Invalid(what, " is given '", name, "' twice");
    there[at] = true;
    bound[at] = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!there[i]) return Invalid(what, " needs the argument '", names.begin()[i], "'");
  }
  return bound;
}

absl::StatusOr<int64_t> IntegerOf(const Value& value, std::string_view what) {
  if (!value.is_integer()) return Invalid(what, ": a ", TypeOf(value), " is no whole number");
  return value.integer();
}

absl::StatusOr<const std::string*> TextOf(const Value& value, std::string_view what) {
  if (value.text() == nullptr) return Invalid(what, ": a ", TypeOf(value), " is no text");
  return value.text();
}

absl::StatusOr<std::shared_ptr<const Sequence>> ItemsOf(const Value& value, Budget& budget) {
  if (const auto* held = value.As<std::shared_ptr<const Sequence>>()) return *held;
  auto items = std::make_shared<Sequence>();
  if (value.undefined()) return items;
  if (value.mapping()) {
    if (!budget.Spend(std::ssize(value.mapping()->entries))) return items;
    for (const auto& entry : value.mapping()->entries) items->items.push_back(entry.first);
  } else if (const std::string* text = value.text()) {
    if (!budget.Spend(16 * std::ssize(*text))) return items;  // each a value of its own
    const std::vector<size_t> places = Places(*text);
    for (size_t i = 0; i + 1 < places.size(); ++i)
      items->items.push_back(Value::Of(text->substr(places[i], places[i + 1] - places[i])));
  } else {
    return Invalid("a ", TypeOf(value), " is not iterable");
  }
  return items;
}

absl::StatusOr<int64_t> LengthOf(const Value& value, Budget& budget) {
  if (value.undefined()) return 0;
  if (value.sequence()) return std::ssize(value.sequence()->items);
  if (value.mapping()) return std::ssize(value.mapping()->entries);
  if (value.text()) return budget.Spend(std::ssize(*value.text())) ? CodePoints(*value.text()) : 0;
  return Invalid("a ", TypeOf(value), " has no length");
}

}  // namespace heed::jinja
