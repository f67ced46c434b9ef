#include "engine/models/golden_draws.h"

#include <algorithm>
#include <string_view>

#include "engine/base/status.h"

namespace heed {
namespace {

constexpr std::string_view kDrawn[] = {"rotations.", "rand_attn."};  // and a layer's number

bool IsDrawn(const std::string& name) {
  return std::ranges::any_of(kDrawn, [&](std::string_view drawn) { return name.starts_with(drawn); });
}

}  // namespace

std::optional<std::string> DrawnName(const std::string& name) {
  if (IsDrawn(name)) return name;
  const size_t dot = name.find('.');
  const std::string of_case = dot == std::string::npos ? "" : name.substr(dot + 1);
  return IsDrawn(of_case) ? std::optional(of_case) : std::nullopt;
}

absl::StatusOr<Draws> ReadDraws(const Weights& file) {
  Draws draws;
  draws[""];
  for (const auto& [name, form] : file.tensors()) {
    const std::optional<std::string> asked = DrawnName(name);
    if (!asked) continue;
    const std::string of_case = *asked == name ? "" : name.substr(0, name.find('.'));
    ASSIGN_OR_RETURN(draws[of_case][*asked], file.Read(name));
  }
  return draws;
}

}  // namespace heed
