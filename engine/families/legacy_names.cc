#include "engine/families/legacy_names.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed {
namespace {

struct Renamed {
  std::string_view end, today;  // of the name
};
constexpr Renamed kRenamed[] = {{"LayerNorm.gamma", "LayerNorm.weight"},
                                {"LayerNorm.beta", "LayerNorm.bias"}};

}  // namespace

void TakeTodaysNames(Weights& weights) {
  std::vector<std::pair<std::string, std::string>> found;  // old, new
  for (const auto& [name, tensor] : weights.tensors()) {
    for (const Renamed& renamed : kRenamed) {
      if (!name.ends_with(renamed.end)) continue;
      std::string today = name.substr(0, name.size() - renamed.end.size()).append(renamed.today);
      if (!weights.Has(today)) found.emplace_back(name, std::move(today));
    }
  }
  for (const auto& [name, today] : found) weights.Rename(name, today);
}

}  // namespace heed
