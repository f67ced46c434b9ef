// The newest rows of something that a sequence keeps from pass to pass, because later rows are made of them.
#ifndef HEED_ENGINE_MODELS_KEPT_ROWS_H_
#define HEED_ENGINE_MODELS_KEPT_ROWS_H_

#include <cstdint>
#include <memory>

#include "engine/base/archive.h"
#include "engine/base/memory.h"

namespace heed {

// One thread at a time. Copies share what they hold until one of them takes more.
class KeptRows {
 public:
  KeptRows(int64_t most, int64_t row_bytes) : most_(most), row_bytes_(row_bytes) {}
  KeptRows(const KeptRows& other);

  // The rows that have come, `stride` bytes from one to the next.
  void Take(const void* rows, int64_t stride, int64_t count);
  int64_t count() const { return count_; }  // held
  // They, side by side, the oldest first; null while there are none.
  const void* rows() const { return memory_ == nullptr ? nullptr : memory_->as<char>(); }
  void Archive(StateArchive& archive);

  // Closed form of what holds the newest of so many that came.
  static int64_t Bytes(int64_t most, int64_t row_bytes, int64_t came);

 private:
  // Makes the memory this object's own, with its newest `stay` rows first.
  void Keep(int64_t stay);
  char* At(int64_t row) { return memory_->as<char>() + row * row_bytes_; }

  int64_t most_, row_bytes_;
  int64_t count_ = 0;
  std::shared_ptr<Buffer> memory_;  // of `most_` rows, once any has come
  mutable bool shared_ = false;     // with a copy; then it is read, not written
};

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_KEPT_ROWS_H_
