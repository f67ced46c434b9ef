#include "server/tokens.h"

#include <algorithm>

#include "engine/base/digest.h"
#include "server/error.h"

namespace heed {
namespace {

bool Matches(std::string_view pattern, std::string_view method) {
  if (pattern == "*") return true;
  if (pattern.ends_with("/*")) return method.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern == method;
}

}  // namespace

absl::Status CheckMethod(const Rights& rights, std::string_view method) {
  const bool may = std::ranges::any_of(rights.methods,
                                       [&](const std::string& pattern) { return Matches(pattern, method); });
  if (may) return absl::OkStatus();
  return Error(ErrorReason::kMethodForbidden, "the token '", rights.name, "' is not good for this method");
}

absl::Status CheckModel(const Rights* rights, std::string_view model) {
  if (rights == nullptr) return absl::OkStatus();
  const bool may = std::ranges::any_of(rights->models,
                                       [&](const std::string& name) { return name == "*" || name == model; });
  if (may) return absl::OkStatus();
  return Error(ErrorReason::kModelForbidden, "the token '", rights->name, "' is not good for this model");
}

std::shared_ptr<const Rights> KnownTokens::Find(std::string_view token) const {
  const auto sha256 = Sha256(token);
  std::shared_ptr<const Rights> found;
  for (const Entry& entry : entries_) {
    if (sha256.ok() && SameSecret(entry.sha256, *sha256)) found = entry.rights;
  }
  return found;
}

}  // namespace heed
