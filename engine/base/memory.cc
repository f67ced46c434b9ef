// Aligned buffers, and scratch space that grows to what a task needs and stays.
#include "engine/base/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace heed {
namespace {

constexpr size_t kFirstBlock = 64 << 10;
constexpr size_t kHugePage = 2 << 20;

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Large buffers ask for huge pages: streaming weights through 4 KiB pages costs a part of the memory's speed.
void* Allocate(size_t bytes) {
  const bool large = bytes >= kHugePage;
  void* data = nullptr;
  if (posix_memalign(&data, large ? kHugePage : kAlignment, RoundUp(bytes)) != 0) throw std::bad_alloc();
  if (large) madvise(data, bytes, MADV_HUGEPAGE);  // advice: that it can fail changes nothing
  return data;
}

}  // namespace

void AlignedFree::operator()(void* p) const { std::free(p); }

Buffer::Buffer(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  data_.reset(static_cast<std::byte*>(Allocate(bytes)));
}

Buffer Buffer::Zeros(size_t bytes) {
  Buffer buffer(bytes);
  if (bytes > 0) std::memset(buffer.data_.get(), 0, bytes);
  return buffer;
}

Buffer::Buffer(const Buffer& other) : Buffer(other.size_) {
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
