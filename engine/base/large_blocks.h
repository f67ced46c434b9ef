// Memory on huge pages that comes and goes: the buffers of a pass over a long text, the memory of its
// sequence. The kernel clears a page before it hands it out, and where the machine is a virtual one its host
// has to find it first: 28 % of the time of passes over 16,384 tokens by "axial" columns went into that. So
// what is given back is kept and handed out again; what lies for longer is marked, so that the kernel may
// take its pages when memory is short.
#ifndef HEED_ENGINE_BASE_LARGE_BLOCKS_H_
#define HEED_ENGINE_BASE_LARGE_BLOCKS_H_

#include <cstddef>

namespace heed {

inline constexpr size_t kHugePage = size_t{2} << 20;

struct LargeBlock {
  void* data = nullptr;
  size_t bytes = 0;  // whole huge pages
};

// All of the process. Thread-safe.
class LargeBlocks {
 public:
  // That are kept in all; what has lain longest goes first.
  static constexpr size_t kKeepBytes = size_t{1} << 30;
  // Of these, what came back last and is not marked yet.
  static constexpr size_t kWarmBytes = size_t{64} << 20;

  // Room for so many bytes, contents undefined, in a block that is at most a quarter and a page larger.
  // Throws std::bad_alloc.
  static LargeBlock Take(size_t bytes);
  static void Return(LargeBlock block);
  static size_t KeptBytes();
  // Gives all that is kept to the system: after what was large and does not come again, a model's loading.
  static void Clear();
};

}  // namespace heed

#endif  // HEED_ENGINE_BASE_LARGE_BLOCKS_H_
