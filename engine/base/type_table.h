// Things that a configuration names by their "type": attentions, feed-forwards. A table has a name and a
// factory for each, in the order of its .def file.
#ifndef HEED_ENGINE_BASE_TYPE_TABLE_H_
#define HEED_ENGINE_BASE_TYPE_TABLE_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/status.h"

namespace heed {

template <typename Factory>
struct TypeEntry {
  const char* type;
  Factory* factory;
};

template <typename Factory>
std::vector<std::string_view> TypesOf(std::span<const TypeEntry<Factory>> table) {
  std::vector<std::string_view> types;
  for (const TypeEntry<Factory>& entry : table) types.push_back(entry.type);
  return types;
}

// `where` names the object whose type it is. The error lists the table.
template <typename Factory>
absl::StatusOr<Factory*> FactoryOf(std::span<const TypeEntry<Factory>> table, std::string_view type,
                                   std::string_view where) {
  std::string known;
  for (const TypeEntry<Factory>& entry : table) {
    if (entry.type == type) return entry.factory;
    known += Cat(known.empty() ? "" : ", ", entry.type);
  }
  return Invalid(where, ".type: \"", type, "\" is none of ", known);
}

}  // namespace heed

#endif  // HEED_ENGINE_BASE_TYPE_TABLE_H_
