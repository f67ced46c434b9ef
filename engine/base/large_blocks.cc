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
    auto best = idle_.end();
    for (auto it = idle_.begin(); it != idle_.end(); ++it) {
      const bool fits = it->block.bytes >= bytes && it->block.bytes <= WholePages(bytes + bytes / 4);
      if (fits && (best == idle_.end() || it->block.bytes <= best->block.bytes)) best = it;
    }
    if (best == idle_.end()) return {};
    const LargeBlock block = best->block;
    idle_.erase(best);
    bytes_ -= block.bytes;
    return block;
  }

  void Add(LargeBlock block) {
    std::vector<LargeBlock> gone;
    {
      std::lock_guard lock(mutex_);
      idle_.push_back({block});
      bytes_ += block.bytes;
      while (bytes_ > LargeBlocks::kKeepBytes) {
        bytes_ -= idle_.front().block.bytes;
        gone.push_back(idle_.front().block);
        idle_.erase(idle_.begin());
      }
      Offer();
    }
    for (const LargeBlock& old : gone) Free(old);
  }

  void Clear() {
    std::vector<Idle> gone;
    {
      std::lock_guard lock(mutex_);
      gone.swap(idle_);
      bytes_ = 0;
    }
    for (const Idle& idle : gone) Free(idle.block);
  }

  size_t bytes() {
    std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  struct Idle {
    LargeBlock block;
    bool offered = false;  // to the kernel, until it is written again
  };

  // What comes and goes in every pass would pay for a mark each time, on all cores.
  void Offer() {
    size_t later = 0;
    for (auto it = idle_.rbegin(); it != idle_.rend(); ++it) {
      later += it->block.bytes;
      if (it->offered || later <= LargeBlocks::kWarmBytes) continue;
      madvise(it->block.data, it->block.bytes, MADV_FREE);
      it->offered = true;
    }
  }

  std::mutex mutex_;        // guards all below
  std::vector<Idle> idle_;  // what has lain longest first
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
  Kept::All().Add(block);
}

void LargeBlocks::Clear() { Kept::All().Clear(); }

size_t LargeBlocks::KeptBytes() { return Kept::All().bytes(); }

}  // namespace heed
