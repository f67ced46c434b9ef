#include "engine/base/large_blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

namespace heed {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kKeep = 0;  // so that it sees who uses a block after its end
#else
constexpr size_t kKeep = LargeBlocks::kKeepBytes;
#endif

size_t WholePages(size_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }

LargeBlock Fresh(size_t bytes) {
  LargeBlock block{.bytes = WholePages(bytes)};
  if (posix_memalign(&block.data, kHugePage, block.bytes) != 0) throw std::bad_alloc();
  madvise(block.data, block.bytes, MADV_HUGEPAGE);  // advice: that it can fail changes nothing
  return block;
}

class Kept {
 public:
  static Kept& All() {
    static auto* all = new Kept;  // never deleted: buffers may end after main
    return *all;
  }

  // The smallest that is large enough and not much larger; none: no data.
  LargeBlock Take(size_t bytes) {
    std::lock_guard lock(mutex_);
    auto best = blocks_.end();
    for (auto it = blocks_.begin(); it != blocks_.end(); ++it) {
      const bool fits = it->bytes >= bytes && it->bytes <= WholePages(bytes + bytes / 4);
      if (fits && (best == blocks_.end() || it->bytes <= best->bytes)) best = it;
    }
    if (best == blocks_.end()) return {};
    const LargeBlock block = *best;
    blocks_.erase(best);
    bytes_ -= block.bytes;
    return block;
  }

  void Add(LargeBlock block) {
    std::vector<LargeBlock> gone;
    {
      std::lock_guard lock(mutex_);
      blocks_.push_back(block);
      bytes_ += block.bytes;
      while (bytes_ > kKeep) {
        bytes_ -= blocks_.front().bytes;
        gone.push_back(blocks_.front());
        blocks_.erase(blocks_.begin());
      }
    }
    for (const LargeBlock& old : gone) std::free(old.data);
  }

  void Clear() {
    std::vector<LargeBlock> gone;
    {
      std::lock_guard lock(mutex_);
      gone.swap(blocks_);
      bytes_ = 0;
    }
    for (const LargeBlock& block : gone) std::free(block.data);
  }

  size_t bytes() {
    std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  std::mutex mutex_;                // guards all below
  std::vector<LargeBlock> blocks_;  // what has lain longest first
  size_t bytes_ = 0;
};

}  // namespace

LargeBlock LargeBlocks::Take(size_t bytes) {
  const LargeBlock kept = Kept::All().Take(bytes);
  return kept.data != nullptr ? kept : Fresh(bytes);
}

void LargeBlocks::Return(LargeBlock block) {
  madvise(block.data, block.bytes, MADV_FREE);
  Kept::All().Add(block);
}

void LargeBlocks::Clear() { Kept::All().Clear(); }

size_t LargeBlocks::KeptBytes() { return Kept::All().bytes(); }

}  // namespace heed
