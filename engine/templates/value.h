// What an expression of a template is worth: Python's values, as far as chat templates know them. Values do
// not change once they are made, but for namespaces; containers are shared, not copied.
#ifndef HEED_ENGINE_TEMPLATES_VALUE_H_
#define HEED_ENGINE_TEMPLATES_VALUE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace heed::jinja {

class Value;
struct Macro;
using List = std::vector<Value>;
using Dict = std::vector<std::pair<Value, Value>>;  // in the order in which keys came; each is there once

// What a rendering may still do. A template is the content of a file, and loops within loops take forever:
// each step, and each byte and element that is made or looked at, costs one unit.
class Budget {
 public:
  explicit Budget(int64_t units) : left_(units) {}
  // False once all is spent, and from then on: whoever sees it stops, and makes nothing more.
  bool Spend(int64_t units) {
    left_ = units > left_ ? -1 : left_ - units;
    return left_ >= 0;
  }
  bool spent() const { return left_ < 0; }

 private:
  int64_t left_;
};

// The value of what is not there. It prints as nothing, and what needs a value fails with its message.
struct Undefined {
  std::shared_ptr<const std::string> why{};
  std::string message() const { return why ? *why : "the value is undefined"; }
};
struct None {};
using Text = std::shared_ptr<const std::string>;  // valid UTF-8

struct Sequence;
struct Mapping;
struct Namespace;
struct Loop;

// What may be called: a macro of the template, or a function or method that everyone has.
struct Function {
  const Macro* macro = nullptr;  // of the template, which outlives its values
  std::string_view name{};
};

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, int64_t, double, Text, std::shared_ptr<const Sequence>,
                            std::shared_ptr<const Mapping>, std::shared_ptr<Namespace>, std::shared_ptr<Loop>,
                            Function>;

  Value() : data_(Undefined{}) {}
  template <typename T>
    requires std::is_constructible_v<Data, T>
  explicit Value(T data) : data_(std::move(data)) {}
  static Value Of(std::string text) { return Value(std::make_shared<const std::string>(std::move(text))); }
  static Value MakeUndefined(std::string why);

  template <typename T>
  const T* As() const {
    return std::get_if<T>(&data_);
  }
  // nullptr where it is of another kind.
  const std::string* text() const;
  const Sequence* sequence() const;
  const Mapping* mapping() const;
  Namespace* names() const;
  Loop* loop() const;

  bool undefined() const { return As<Undefined>() != nullptr; }
  bool none() const { return As<None>() != nullptr; }
  bool is_integer() const { return As<bool>() || As<int64_t>(); }  // to Python a truth is a number
  bool is_number() const { return is_integer() || As<double>(); }
  int64_t integer() const;  // of an integer
  double number() const;    // of a number

 private:
  Data data_;
};

struct Sequence {
  List items;
  bool is_tuple = false;
  int depth = 1;  // of containers within one another
};
struct Mapping {
  Dict entries;
  int depth = 1;
};

// The one value that changes: `set ns.name = ...`.
struct Namespace {
  std::map<std::string, Value, std::less<>> attributes;
};

// `loop`, within a for.
struct Loop {
  std::shared_ptr<const Sequence> items;
  int64_t at = 0;
  std::vector<Value> changed{};  // what loop.changed() was asked of last
};

// INVALID_ARGUMENT for containers nested deeper than 64, and for namespaces and loops in them, which are
// variables only.
absl::StatusOr<Value> MakeList(List items, bool is_tuple = false);
absl::StatusOr<Value> MakeDict(Dict entries);
bool MayBeHeld(const Value& value);

const Value* Find(const Dict& entries, const Value& key, Budget& budget);
// Replaces what is there under this key.
void Put(Dict& entries, Value key, Value value, Budget& budget);

// "'NoneType'", "'dict object'", as messages of Python and Jinja call them.
std::string TypeOf(const Value& value);

bool Truth(const Value& value);
bool Equal(const Value& a, const Value& b, Budget& budget);
// Whether a comes before b; INVALID_ARGUMENT where Python knows no order.
absl::StatusOr<bool> Less(const Value& a, const Value& b, Budget& budget);

// As it is printed: Python's str().
std::string Str(const Value& value, Budget& budget);
// As it is shown within a list: Python's repr().
std::string Repr(const Value& value, Budget& budget);
std::string ShownNumber(double number);
// As json.dumps() writes it, characters as they are. `indent` < 0: on one line.
absl::StatusOr<std::string> ToJson(const Value& value, int indent, bool sort_keys, Budget& budget);

}  // namespace heed::jinja

#endif  // HEED_ENGINE_TEMPLATES_VALUE_H_
