// Reading options from JSON objects, strictly: a wrong type, a number out of range or an unknown key is an
// error that names the key, the value and the limit. Errors are collected: read all fields, then ask
// Finish().
#ifndef HEED_ENGINE_BASE_JSON_H_
#define HEED_ENGINE_BASE_JSON_H_

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace heed {

using Json = nlohmann::json;

// Text to JSON. Refuses duplicate keys in an object, depth beyond max_depth, invalid UTF-8, trailing text,
// and anything that is not JSON; the message begins with `what` ("config.json").
absl::StatusOr<Json> ParseJson(std::string_view text, std::string_view what, int max_depth = 32);

// Python writes the numbers NaN and Infinity, which JSON does not have: null and the largest number in their
// places, outside of strings.
std::string WithoutPythonNumbers(std::string_view text);

// A value as a message shows it: as JSON, ASCII, 60 characters at most.
std::string Shown(const Json& value);

// The whole of it, without white space, keys in order: equal values have equal texts.
std::string CanonicalText(const Json& value);

// One object's fields. Every getter remembers its key as known and the first error, and then returns its
// default.
class JsonFields {
 public:
  // `where` begins messages: "config.json: layers[3].attention". `object` must outlive this.
  JsonFields(const Json& object, std::string where);

  bool Has(std::string_view key) const;  // present and not null
  int64_t Int(std::string_view key, int64_t fallback, int64_t min, int64_t max);
  int64_t RequiredInt(std::string_view key, int64_t min, int64_t max);
  double Number(std::string_view key, double fallback, double min, double max);
  bool Bool(std::string_view key, bool fallback);
  std::string String(std::string_view key, std::string_view fallback);
  // One of `allowed`, else an error that lists them. The first of them is the default.
  std::string Choice(std::string_view key, const std::vector<std::string>& allowed);
  // A list of whole numbers, `least` to `most` of them; empty if absent.
  std::vector<int64_t> Ints(std::string_view key, int64_t least, int64_t most, int64_t min, int64_t max);
  // The raw value, null if absent; counts as known.
  const Json& Raw(std::string_view key);
  void Ignore(std::string_view key);  // known, but of no effect

  void Fail(std::string message);        // adds an error: "WHERE: MESSAGE"
  void Fail(const absl::Status& inner);  // adds an inner object's, which says itself where, if there is one
  const std::string& where() const { return where_; }
  // The `where` of a value: "config.json: blocks", "config.json: blocks[0].layers".
  std::string Name(std::string_view key) const;

  // The first error; if there is none, unknown keys are one.
  absl::Status Finish();
  // The same of objects that may have keys which nobody here knows.
  const absl::Status& error() const { return error_; }

 private:
  const Json* Find(std::string_view key);
  void FailField(std::string_view key, std::string_view message);  // adds an error: "WHERE: KEYMESSAGE"
  const Json& object_;
  std::string where_;
  std::set<std::string, std::less<>> known_;
  absl::Status error_;
};

}  // namespace heed

#endif  // HEED_ENGINE_BASE_JSON_H_
