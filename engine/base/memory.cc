// Aligned buffers, and scratch space that grows to what a task needs and stays.
#include "engine/base/memory.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/large_blocks.h"

namespace heed {
namespace {

constexpr size_t kFirstBlock = 64 << 10;
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kShare = false;  // so that it sees who writes beyond a piece
#else
constexpr bool kShare = true;
#endif

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::unique_ptr<std::byte, Release> Allocate(size_t bytes) {
  if (bytes >= kHugePage) {
    const LargeBlock block = LargeBlocks::Take(RoundUp(bytes));
    return {static_cast<std::byte*>(block.data), Release{.block = block.bytes}};
  }
  void* data = nullptr;
  if (posix_memalign(&data, kAlignment, RoundUp(bytes)) != 0) throw std::bad_alloc();
  return {static_cast<std::byte*>(data), Release{}};
}

}  // namespace

// Huge pages cut into pieces of one size.
class Slab {
 public:
  static constexpr size_t kBytes = 16 << 20;

  explicit Slab(size_t piece) : memory_(kBytes), piece_(piece) {
    for (size_t end = kBytes / piece * piece; end > 0; end -= piece)
      free_.push_back(memory_.as<std::byte>() + end - piece);
  }
  void* Take() {
    void* p = free_.back();
    free_.pop_back();
    return p;
  }
  void Return(void* p) { free_.push_back(p); }

  size_t piece() const { return piece_; }
  bool full() const { return free_.empty(); }
  bool unused() const { return free_.size() == kBytes / piece_; }

 private:
  Buffer memory_;
  const size_t piece_;
  std::vector<void*> free_;  // the last one is the next to be taken
};

namespace {

// All slabs of the process. Thread-safe.
class Slabs {
 public:
  static Slabs& All() {
    static auto* all = new Slabs;  // never deleted: buffers may end after main
    return *all;
  }

  std::unique_ptr<std::byte, Release> Take(size_t piece) {
    std::lock_guard lock(mutex_);
    std::vector<Slab*>& open = open_[piece];
    if (open.empty()) open.push_back(new Slab(piece));
    Slab* slab = open.back();
    void* p = slab->Take();
    if (slab->full()) open.pop_back();
    return {static_cast<std::byte*>(p), Release{slab}};
  }

  void Return(void* p, Slab* slab) {
    std::lock_guard lock(mutex_);
    std::vector<Slab*>& open = open_[slab->piece()];
    if (slab->full()) open.push_back(slab);
    slab->Return(p);
    if (!slab->unused()) return;
    std::erase(open, slab);
    delete slab;
  }

 private:
  std::mutex mutex_;                                     // guards all below
  std::unordered_map<size_t, std::vector<Slab*>> open_;  // those with a free piece, by the size of pieces
};

std::atomic<int64_t> lasting_bytes = 0, lasting_most = 0;

void CountLasting(int64_t bytes) {
  const int64_t now = lasting_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t most = lasting_most.load(std::memory_order_relaxed);
  while (most < now && !lasting_most.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
}

}  // namespace

int64_t LastingMemory::Bytes() { return lasting_bytes.load(std::memory_order_relaxed); }
int64_t LastingMemory::Most() { return lasting_most.load(std::memory_order_relaxed); }
void LastingMemory::MeasureAnew() { lasting_most.store(Bytes(), std::memory_order_relaxed); }

void Release::operator()(void* p) const {
  CountLasting(-static_cast<int64_t>(lasting));
  if (slab != nullptr) return Slabs::All().Return(p, slab);
  if (block > 0) return LargeBlocks::Return({p, block});
  std::free(p);
}

Buffer::Buffer(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  data_ = Allocate(bytes);
}

Buffer Buffer::Zeros(size_t bytes) {
  Buffer buffer(bytes);
  if (bytes > 0) std::memset(buffer.data_.get(), 0, bytes);
  return buffer;
}

Buffer Buffer::Lasting(size_t bytes) {
  if (bytes == 0) return {};
  Buffer buffer;
  if (bytes >= kHugePage || !kShare) {
    buffer = Buffer(bytes);
  } else {
    buffer.data_ = Slabs::All().Take(RoundUp(bytes));
    buffer.size_ = bytes;
  }
  buffer.data_.get_deleter().lasting = bytes;
  CountLasting(static_cast<int64_t>(bytes));
  return buffer;
}

Buffer::Buffer(const Buffer& other)
    : Buffer(other.data_.get_deleter().lasting > 0 ? Lasting(other.size_) : Buffer(other.size_)) {
  if (size_ > 0) std::memcpy(data_.get(), other.data_.get(), size_);
}

Buffer& Buffer::operator=(const Buffer& other) {
  if (this != &other) *this = Buffer(other);
  return *this;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  data_ = std::move(other.data_);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

void* Scratch::TakeBytes(size_t bytes) {
  bytes = RoundUp(bytes);
  if (blocks_.empty() || used_ + bytes > blocks_.back().size()) {
    blocks_.emplace_back(std::max({bytes, kFirstBlock, this->bytes()}));
    used_ = 0;
  }
  std::byte* piece = blocks_.back().as<std::byte>() + used_;
  used_ += bytes;
  return piece;
}

void Scratch::Reset() {
  if (blocks_.size() > 1) {
    size_t total = bytes();
    blocks_.clear();
    blocks_.emplace_back(total);
  }
  used_ = 0;
}

void Scratch::Reserve(size_t bytes) {
  if (!blocks_.empty() && blocks_.front().size() >= bytes) return;
  blocks_.clear();
  blocks_.emplace_back(bytes);
  used_ = 0;
}

size_t Scratch::bytes() const {
  size_t total = 0;
  for (const Buffer& block : blocks_) total += block.size();
  return total;
}

}  // namespace heed
