#include "engine/text/vocabulary.h"

#include <algorithm>

#include "engine/base/json.h"
#include "engine/base/status.h"

namespace heed {

void Vocabulary::Add(std::string_view token, int64_t id) {
  const auto [known, added] = ids_.try_emplace(std::string(token), id);
  if (known->second != id && problem_.empty())
    problem_ = Cat(Shown(token), " has two ids, ", known->second, " and ", id);
  Spell(known->first, id);
}

void Vocabulary::AddAgain(std::string_view token, int64_t id) {
  const auto [known, added] = ids_.insert_or_assign(std::string(token), id);
  Spell(known->first, id);
}

void Vocabulary::Spell(const std::string& token, int64_t id) {
  if (!problem_.empty()) return;
  if (id < 0 || id > kMaxId) {
    problem_ = Cat(Shown(token), ": ", id, " is not an id from 0 to ", kMaxId);
    return;
  }
  if (id >= size()) tokens_.resize(id + 1);
  if (tokens_[id] != nullptr && *tokens_[id] != token) {
    const auto [first, second] = std::minmax(token, *tokens_[id]);
    problem_ = Cat(Shown(first), " and ", Shown(second), " share id ", id);
  }
  tokens_[id] = &token;
}

absl::Status Vocabulary::Finish(std::string_view where) const {
  return problem_.empty() ? absl::OkStatus() : Invalid(where, ": ", problem_);
}

int32_t Vocabulary::Find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : static_cast<int32_t>(found->second);
}

}  // namespace heed
