#include "engine/text/trie.h"

#include <bit>
#include <utility>

namespace heed {

void NumberMap::Set(uint64_t key, int32_t number) {
  if (2 * (size_ + 1) > slots_.size()) Grow();
  Slot& slot = slots_[Place(key)];
  if (slot.number < 0) ++size_;
  slot = {key, number};
}

void NumberMap::Grow() {
  const std::vector<Slot> old = std::exchange(slots_, {});
  slots_.resize(old.empty() ? 16 : 2 * old.size());
  shift_ = 64 - std::countr_zero(slots_.size());
  for (const Slot& slot : old) {
    if (slot.number >= 0) slots_[Place(slot.key)] = slot;
  }
}

void Trie::Add(CharSpan word, int32_t number) {
  int32_t node = kRoot;
  for (const Char& c : word) {
    int32_t next = Step(node, c.code);
    if (next < 0) {
      next = static_cast<int32_t>(numbers_.size());
      numbers_.push_back(kNone);
      edges_.Set(Edge(node, c.code), next);
    }
    node = next;
  }
  numbers_[node] = number;
}

int32_t Trie::Walk(int32_t node, CharSpan chars) const {
  for (const Char& c : chars) {
    if (node < 0) break;
    node = Step(node, c.code);
  }
  return node;
}

}  // namespace heed
