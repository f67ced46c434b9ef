#include "engine/text/changes.h"

#include <utility>

namespace heed {

void Apply(const std::vector<Change>& changes, int32_t origin, Chars& text) {
  Chars changed;
  changed.reserve(changes.size());
  size_t at = 0;  // of the old characters, the next that is not replaced yet
  for (const Change& c : changes) {
    const Char from = c.change <= 0 ? text[at] : at > 0 ? text[at - 1] : Char{0, origin, origin};
    changed.push_back({c.code, from.begin, from.end});
    if (c.change <= 0) at += 1 - c.change;
  }
  text = std::move(changed);
}

}  // namespace heed
