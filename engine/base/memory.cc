// Aligned buffers, and scratch space that grows to what a task needs and stays.
#include "engine/base/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

namespace heed {
namespace {

constexpr size_t kFirstBlock = 64 << 10;
constexpr size_t kHugePage = 2 << 20;
constexpr size_t kSharedRegion = 32 << 20;

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

class Region {
 public:
  explicit Region(size_t bytes) : bytes_(bytes + kHugePage) {
    if (bytes_ < bytes) throw std::bad_alloc();
    mapping_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping_ == MAP_FAILED) throw std::bad_alloc();
    const size_t past = reinterpret_cast<uintptr_t>(mapping_) % kHugePage;
    data_ = static_cast<std::byte*>(mapping_) + (kHugePage - past) % kHugePage;
    madvise(data_, bytes, MADV_HUGEPAGE);  // advice: that it can fail changes nothing
  }
  ~Region() { munmap(mapping_, bytes_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::byte* data() const { return data_; }

 private:
  const size_t bytes_;
  void* mapping_;
  std::byte* data_;  // from a huge page's boundary on
};

void Release::operator()(void* p) const {
  if (region == nullptr) ::operator delete(p, std::align_val_t(kAlignment));
}

Buffer::Buffer(size_t bytes) : size_(bytes) {
  if (bytes >= kHugePage) {
    auto region = std::make_shared<Region>(bytes);
    data_ = {region->data(), Release{region}};
  } else if (bytes > 0) {
    data_.reset(static_cast<std::byte*>(::operator new(RoundUp(bytes), std::align_val_t(kAlignment))));
  }
}

Buffer Buffer::Zeros(size_t bytes) {
  Buffer buffer(bytes);
  if (bytes > 0) std::memset(buffer.data_.get(), 0, bytes);
  return buffer;
}

Buffer Buffer::Lasting(size_t bytes) {
  static std::mutex mutex;
  static auto* latest = new std::weak_ptr<Region>;
  static size_t used = 0;  // of the latest region
  if (bytes == 0 || bytes >= kHugePage) return Buffer(bytes);
  std::lock_guard lock(mutex);
  std::shared_ptr<Region> region = latest->lock();
  if (region == nullptr || used + bytes > kSharedRegion) {
    *latest = region = std::make_shared<Region>(kSharedRegion);
    used = 0;
  }
  Buffer buffer;
  buffer.data_ = {region->data() + used, Release{region}};
  buffer.size_ = bytes;
  used += RoundUp(bytes);
  return buffer;
}

Buffer::Buffer(const Buffer& other)
    : Buffer(other.data_.get_deleter().region != nullptr ? Lasting(other.size_) : Buffer(other.size_)) {
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

size_t Scratch::bytes() const {
  size_t total = 0;
  for (const Buffer& block : blocks_) total += block.size();
  return total;
}

}  // namespace heed
