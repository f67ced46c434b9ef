// Aligned memory: buffers that are owned, and a thread's scratch space that is reused.
#ifndef HEED_ENGINE_BASE_MEMORY_H_
#define HEED_ENGINE_BASE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace heed {

inline constexpr size_t kAlignment = 64;  // a cache line, and the widest vector

class Slab;

struct Release {
  void operator()(void* p) const;
  Slab* slab = nullptr;  // that p is a piece of
  size_t block = 0;      // bytes of the large block that p is; with neither it came from the heap
  size_t lasting = 0;    // bytes, if Buffer::Lasting() gave it
};

// Bytes aligned to kAlignment. Throws std::bad_alloc. Copies are deep, and made as the original was.
//
// Large ones lie on huge pages: over 4 KiB pages a core reads at little more than half of the memory's speed
// (17 GB/s instead of 28 on Zen 4).
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes);  // contents undefined
  static Buffer Zeros(size_t bytes);
  // Contents undefined. For what is made once and read often: weights, the memory of sequences. Small ones
  // share huge pages too, with others of their size, and go back to them when they end. Thread-safe.
  static Buffer Lasting(size_t bytes);
  Buffer(const Buffer& other);
  Buffer& operator=(const Buffer& other);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_.get());
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_.get());
  }

 private:
  std::unique_ptr<std::byte, Release> data_;
  size_t size_ = 0;
};

// What all that Buffer::Lasting() gave holds, in the whole process: what closed forms are compared with.
class LastingMemory {
 public:
  static int64_t Bytes();
  static int64_t Most();  // that there were at once since MeasureAnew()
  static void MeasureAnew();
};

// Memory for the length of one task. Take() hands out pieces, Reset() takes them all back and keeps the
// memory for the next task. One thread's own; after the first tasks it allocates no more.
class Scratch {
 public:
  // `count` objects of T, aligned, contents undefined, valid until Reset().
  template <typename T>
  T* Take(size_t count) {
    return static_cast<T*>(TakeBytes(count * sizeof(T)));
  }
  void Reset();
  // Between tasks: so many bytes are held in one piece. A task that takes no more allocates nothing.
  void Reserve(size_t bytes);
  size_t bytes() const;  // held in all, for memory accounts
  // What Take() uses for so many bytes.
  static constexpr int64_t Piece(int64_t bytes) {
    return (bytes + static_cast<int64_t>(kAlignment) - 1) / static_cast<int64_t>(kAlignment) *
           static_cast<int64_t>(kAlignment);
  }

 private:
  friend class ScratchFrame;
  void* TakeBytes(size_t bytes);
  std::vector<Buffer> blocks_;  // Reset() joins them into one
  size_t used_ = 0;             // of the last block
};

// Gives back at its end what was taken since its beginning: the memory of one turn of a loop.
class ScratchFrame {
 public:
  explicit ScratchFrame(Scratch& scratch)
      : scratch_(scratch), blocks_(scratch.blocks_.size()), used_(scratch.used_) {}
  // Blocks added since hold nothing older: the last of them is empty again.
  ~ScratchFrame() { scratch_.used_ = scratch_.blocks_.size() == blocks_ ? used_ : 0; }
  ScratchFrame(const ScratchFrame&) = delete;
  ScratchFrame& operator=(const ScratchFrame&) = delete;

 private:
  Scratch& scratch_;
  const size_t blocks_, used_;
};

}  // namespace heed

#endif  // HEED_ENGINE_BASE_MEMORY_H_
