#include "engine/models/kept_rows.h"

#include <algorithm>
#include <cstring>

namespace heed {

KeptRows::KeptRows(const KeptRows& other)
    : most_(other.most_),
      row_bytes_(other.row_bytes_),
      count_(other.count_),
      memory_(other.memory_),
      shared_(true) {
  other.shared_ = true;
}

void KeptRows::Take(const void* rows, int64_t stride, int64_t count) {
  if (count == 0 || most_ == 0) return;
  const int64_t taken = std::min(count, most_), stay = std::min(count_, most_ - taken);
  Keep(stay);
  const char* from = static_cast<const char*>(rows) + (count - taken) * stride;
  for (int64_t r = 0; r < taken; ++r) std::memcpy(At(stay + r), from + r * stride, row_bytes_);
  count_ = stay + taken;
}

void KeptRows::Keep(int64_t stay) {
  const int64_t first = count_ - stay;
  if (memory_ == nullptr || shared_) {
    const auto old = std::move(memory_);
    memory_ = std::make_shared<Buffer>(Buffer::Lasting(most_ * row_bytes_));
    shared_ = false;
    if (stay > 0) std::memcpy(At(0), old->as<char>() + first * row_bytes_, stay * row_bytes_);
  } else if (first > 0 && stay > 0) {
    std::memmove(At(0), At(first), stay * row_bytes_);
  }
}

void KeptRows::Archive(StateArchive& archive) {
  archive.Number(count_, 0, most_);
  if (archive.restoring() && count_ > 0) Keep(0);
  if (memory_ != nullptr) archive.Bytes(*memory_, count_ * row_bytes_);
}

int64_t KeptRows::Bytes(int64_t most, int64_t row_bytes, int64_t came) {
  return static_cast<int64_t>(sizeof(int64_t)) + (came > 0 ? most * row_bytes : 0);
}

}  // namespace heed
