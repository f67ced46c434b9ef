#include "engine/base/large_blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "engine/base/round.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace heed {
namespace {

// AddressSanitizer sees who writes beyond what was asked for, and into what was given back.
#if defined(__SANITIZE_ADDRESS__)
void Forbid(const LargeBlock& block) { ASAN_POISON_MEMORY_REGION(block.data, block.bytes); }
void Allow(const LargeBlock& block, size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(block.data, bytes); }
#else
void Forbid(const LargeBlock&) {}
void Allow(const LargeBlock&, size_t) {}
#endif

size_t WholePages(size_t bytes) { return RoundUp(bytes, kHugePage); }

LargeBlock Fresh(size_t bytes) {
  LargeBlock block{.bytes = WholePages(bytes)};
  if (posix_memalign(&block.data, kHugePage, block.bytes) != 0) throw std::bad_alloc();
  madvise(block.data, block.bytes, MADV_HUGEPAGE);  // advice: that it can fail changes nothing
  Forbid(block);
  return block;
}

void Free(const LargeBlock& block) {
  Allow(block, block.bytes);
  std::free(block.data);
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
      while (bytes_ > LargeBlocks::kKeepBytes) {
        bytes_ -= blocks_.front().bytes;
        gone.push_back(blocks_.front());
        blocks_.erase(blocks_.begin());
      }
    }
    for (const LargeBlock& old : gone) Free(old);
  }

  void Clear() {
    std::vector<LargeBlock> gone;
    {
      std::lock_guard lock(mutex_);
      gone.swap(blocks_);
      bytes_ = 0;
    }
    for (const LargeBlock& block : gone) Free(block);
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
  LargeBlock block = Kept::All().Take(bytes);
  if (block.data == nullptr) block = Fresh(bytes);
  Allow(block, bytes);
  return block;
}

void LargeBlocks::Return(LargeBlock block) {
  Forbid(block);
  madvise(block.data, block.bytes, MADV_FREE);
  Kept::All().Add(block);
}

void LargeBlocks::Clear() { Kept::All().Clear(); }

size_t LargeBlocks::KeptBytes() { return Kept::All().bytes(); }

}  // namespace heed
