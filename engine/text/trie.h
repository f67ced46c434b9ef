// Words, found a character at a time: a look-up for each, however many words there are.
#ifndef HEED_ENGINE_TEXT_TRIE_H_
#define HEED_ENGINE_TEXT_TRIE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/text/chars.h"

namespace heed {

// From keys to numbers from 0 on, by open addressing: what is looked up for every character of every text.
class NumberMap {
 public:
  // -1: there is none.
  int32_t Find(uint64_t key) const { return slots_.empty() ? -1 : slots_[Place(key)].number; }
  // Instead of the key's number, if it has one.
  void Set(uint64_t key, int32_t number);

 private:
  struct Slot {
    uint64_t key = 0;
    int32_t number = -1;  // of a free slot
  };

  // Where the key is, or would be.
  size_t Place(uint64_t key) const {
    size_t at = (key * 0x9e3779b97f4a7c15) >> shift_;
    while (slots_[at].number >= 0 && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void Grow();

  std::vector<Slot> slots_;  // a power of two of them, half of them free
  int shift_ = 64;
  size_t size_ = 0;
};

class Trie {
 public:
  static constexpr int32_t kRoot = 0;
  static constexpr int32_t kNone = -1;

  // `number` is from 0 on; of a word's numbers, the last counts.
  void Add(CharSpan word, int32_t number);
  // From what was read to what is read with one more character; kNone: no word goes on so.
  int32_t Step(int32_t node, char32_t code) const { return edges_.Find(Edge(node, code)); }
  int32_t Walk(int32_t node, CharSpan chars) const;
  // Of the word that ends here; kNone: none does.
  int32_t Number(int32_t node) const { return node < 0 ? kNone : numbers_[node]; }
  int32_t Find(CharSpan word) const { return Number(Walk(kRoot, word)); }

 private:
  static uint64_t Edge(int32_t node, char32_t code) {
    return uint64_t{static_cast<uint32_t>(node)} << 32 | code;
  }
  NumberMap edges_;  // (node, character) to node
  std::vector<int32_t> numbers_ = {kNone};
};

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_TRIE_H_
