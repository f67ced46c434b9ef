#include "engine/text/vocabulary.h"

#include <algorithm>

#include "engine/base/json.h"
#include "engine/base/status.h"

namespace heed {

void Vocabulary::Add(std::string_view token, int64_t id) {
  const auto [known, added] = ids_.try_emplace(std::string(token), id);
  if (!problem_.empty()) return;
  if (id < 0 || id > INT32_MAX) problem_ = Cat(Shown(token), ": ", id, " is not an id from 0 to ", INT32_MAX);
  if (known->second != id) problem_ = Cat(Shown(token), " has two ids, ", known->second, " and ", id);
}

absl::Status Vocabulary::Finish(std::string_view where) {
  if (!problem_.empty()) return Invalid(where, ": ", problem_);
  std::vector<const std::string*> by_id(ids_.size());
  for (const auto& [token, id] : ids_) {
    if (id >= std::ssize(by_id)) {
      return Invalid(where, ": ", Shown(token), " has id ", id, ", but the ids of ", ids_.size(),
                     " tokens must be 0 to ", std::ssize(by_id) - 1);
    }
    if (by_id[id] != nullptr) {
      const auto [first, second] = std::minmax(token, *by_id[id]);
      return Invalid(where, ": ", Shown(first), " and ", Shown(second), " share id ", id);
    }
    by_id[id] = &token;
  }
  for (const std::string* token : by_id) tokens_.push_back(*token);
  return absl::OkStatus();
}

int32_t Vocabulary::Find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : static_cast<int32_t>(found->second);
}

}  // namespace heed
