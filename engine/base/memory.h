// Aligned memory: buffers that are owned, and a thread's scratch space that is reused.
#ifndef HEED_ENGINE_BASE_MEMORY_H_
#define HEED_ENGINE_BASE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace heed {

inline constexpr size_t kAlignment = 64;  // a cache line, and the widest vector

struct AlignedFree {
  void operator()(void* p) const;
};

// Bytes aligned to kAlignment. Throws std::bad_alloc. Copies are deep.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes);  // contents undefined
  static Buffer Zeros(size_t bytes);
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
  std::unique_ptr<std::byte, AlignedFree> data_;
  size_t size_ = 0;
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
  size_t bytes() const;  // held in all, for memory accounts

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
  ~ScratchFrame() { scratch_.used_ = scratch_.blocks_.size() == blocks_ ? used_ : 0; }  // 0: a block of its own
  ScratchFrame(const ScratchFrame&) = delete;
  ScratchFrame& operator=(const ScratchFrame&) = delete;

 private:
  Scratch& scratch_;
  const size_t blocks_, used_;
};

}  // namespace heed

#endif  // HEED_ENGINE_BASE_MEMORY_H_
