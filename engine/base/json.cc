#include "engine/base/json.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "engine/base/status.h"

namespace heed {
namespace {

// Builds the value from nlohmann's events, so that depth and duplicate keys are refused as they come.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(int max_depth) : max_depth_(max_depth) {}

  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(number_integer_t value) override { return Put(value); }
  bool number_unsigned(number_unsigned_t value) override { return Put(value); }
  bool number_float(number_float_t value, const string_t&) override { return Put(value); }
  bool string(string_t& value) override { return Put(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // JSON text has none
  bool start_object(size_t) override { return Open(Json::object()); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    auto [slot, added] = open_.back()->get_ref<Json::object_t&>().try_emplace(name);
    if (!added) return Refuse(Cat("key ", Shown(name), " appears twice"));
    slot_ = &slot->second;
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    std::string_view reason =
        error.what();  // "[json.exception...] what and where; last read: 'the text itself'"
    reason.remove_prefix(reason.find("] ") + 2);
    reason = reason.substr(0, std::min(reason.find("; last read"), reason.find(" parsing '")));
    return Refuse(Cat("not JSON: ", reason));
  }

  Json value;
  std::string error;

 private:
  bool Refuse(std::string message) {
    error = std::move(message);
    return false;
  }

  // Where the next value goes: the key's slot of an object, a new place of an array, or the whole.
  bool Put(Json&& next) {
    if (open_.empty()) {
      slot_ = &value;
    } else if (open_.back()->is_array()) {
      slot_ = &open_.back()->emplace_back();
    }
    *slot_ = std::move(next);
    return true;
  }

  bool Open(Json&& container) {
    if (std::ssize(open_) == max_depth_) return Refuse(Cat("nested deeper than ", max_depth_, " levels"));
    Put(std::move(container));
    open_.push_back(slot_);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const int max_depth_;
  std::vector<Json*> open_;  // objects and arrays begun and not ended, outermost first
  Json* slot_ = nullptr;
};

const Json& NullJson() {
  static const Json null;
  return null;
}

}  // namespace

std::string CanonicalText(const Json& value) { return value.dump(-1, ' ', /*ensure_ascii=*/true); }

std::string Shown(const Json& value) {
  std::string text = CanonicalText(value);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

std::string WithoutPythonNumbers(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kNumbers[] = {
      {"Infinity", "1.7976931348623157e308"}, {"NaN", "null"}};
  std::string out;
  bool in_string = false;
  while (!text.empty()) {
    const auto found = std::ranges::find_if(
        kNumbers, [&](const auto& number) { return !in_string && text.starts_with(number.first); });
    if (found != std::end(kNumbers)) {
      out += found->second;
      text.remove_prefix(found->first.size());
      continue;
    }
    if (text.front() == '"') in_string = !in_string;
    const size_t taken = in_string && text.front() == '\\' && text.size() > 1 ? 2 : 1;
    out += text.substr(0, taken);
    text.remove_prefix(taken);
  }
  return out;
}

absl::StatusOr<Json> ParseJson(std::string_view text, std::string_view what, int max_depth) {
  // To nlohmann a NUL is the end of the text.
  if (text.find('\0') != text.npos) return Invalid(what, ": not JSON: a NUL byte");
  Builder builder(max_depth);
  if (!Json::sax_parse(text, &builder)) return Invalid(what, ": ", builder.error);
  return std::move(builder.value);
}

JsonFields::JsonFields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object_.is_object()) Fail(Cat(Shown(object_), " is not an object"));
}

// A file's own fields follow a colon, an inner object's a dot: "config.json: width", "config.json:
// layers[3].width".
std::string JsonFields::Name(std::string_view key) const {
  return Cat(where_, where_.find(": ") == std::string::npos ? ": " : ".", key);
}

void JsonFields::FailField(std::string_view key, std::string_view message) {
  error_.Update(Invalid(Name(key), message));
}

void JsonFields::Fail(std::string message) { error_.Update(Invalid(where_, ": ", message)); }

void JsonFields::Fail(const absl::Status& inner) { error_.Update(inner); }

const Json* JsonFields::Find(std::string_view key) {
  Ignore(key);
  return Has(key) ? &*object_.find(key) : nullptr;
}

bool JsonFields::Has(std::string_view key) const {
  if (!object_.is_object()) return false;
  auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

int64_t JsonFields::Int(std::string_view key, int64_t fallback, int64_t min, int64_t max) {
  const Json* value = Find(key);
  if (value == nullptr) return fallback;
  const bool beyond = value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{INT64_MAX};
  if (!value->is_number_integer()) {
    FailField(key, Cat(": ", Shown(*value), " is not an integer"));
  } else if (beyond || value->get<int64_t>() > max) {
    FailField(key, Cat(": ", Shown(*value), " is above ", max));
  } else if (value->get<int64_t>() < min) {
    FailField(key, Cat(": ", Shown(*value), " is below ", min));
  } else {
    return value->get<int64_t>();
  }
  return fallback;
}

int64_t JsonFields::RequiredInt(std::string_view key, int64_t min, int64_t max) {
  if (!Has(key)) FailField(key, " is missing");
  return Int(key, min, min, max);
}

double JsonFields::Number(std::string_view key, double fallback, double min, double max) {
  const Json* value = Find(key);
  if (value == nullptr) return fallback;
  if (!value->is_number()) {
    FailField(key, Cat(": ", Shown(*value), " is not a number"));
  } else if (value->get<double>() < min) {
    FailField(key, Cat(": ", Shown(*value), " is below ", min));
  } else if (value->get<double>() > max) {
    FailField(key, Cat(": ", Shown(*value), " is above ", max));
  } else {
    return value->get<double>();
  }
  return fallback;
}

bool JsonFields::Bool(std::string_view key, bool fallback) {
  const Json* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  FailField(key, Cat(": ", Shown(*value), " is not true or false"));
  return fallback;
}

std::string JsonFields::String(std::string_view key, std::string_view fallback) {
  const Json* value = Find(key);
  if (value == nullptr) return std::string(fallback);
  if (value->is_string()) return value->get<std::string>();
  FailField(key, Cat(": ", Shown(*value), " is not a string"));
  return std::string(fallback);
}

std::string JsonFields::Choice(std::string_view key, const std::vector<std::string>& allowed) {
  std::string chosen = String(key, allowed.front());
  for (const std::string& name : allowed) {
    if (chosen == name) return chosen;
  }
  FailField(key, Cat(": ", Shown(chosen), " is none of \"", absl::StrJoin(allowed, "\", \""), "\""));
  return allowed.front();
}

std::vector<int64_t> JsonFields::Ints(std::string_view key, int64_t least, int64_t most, int64_t min,
                                      int64_t max) {
  const Json* value = Find(key);
  if (value == nullptr) return {};
  std::vector<int64_t> numbers;
  if (!value->is_array() || std::ssize(*value) < least || std::ssize(*value) > most) {
    const std::string count = least == most ? Cat(most)
                              : least == 0  ? Cat("at most ", most)
                                            : Cat(least, " to ", most);
    FailField(key, Cat(": ", Shown(*value), " is no list of ", count, " whole numbers"));
    return {};
  }
  for (const Json& one : *value) {
    const bool fits = one.is_number_integer() && one >= min && one <= max;
    if (!fits) FailField(key, Cat(": ", Shown(one), " is no whole number from ", min, " to ", max));
    numbers.push_back(fits ? one.get<int64_t>() : min);
  }
  return numbers;
}

const Json& JsonFields::Raw(std::string_view key) {
  const Json* value = Find(key);
  return value == nullptr ? NullJson() : *value;
}

void JsonFields::Ignore(std::string_view key) { known_.emplace(key); }

absl::Status JsonFields::Finish() {
  if (!error_.ok()) return error_;
  for (const auto& [key, value] : object_.items()) {
    if (!known_.contains(key)) return Invalid(where_, ": unknown key ", Shown(key));
  }
  return absl::OkStatus();
}

}  // namespace heed
