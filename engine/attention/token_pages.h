// The keys and values of one head of one sequence, a row each, where any token is read by its number; and
// what a variant keeps beside them for each token. In pages of kGrid tokens:
//   [kGrid, head_dim] keys, [kGrid, head_dim] values, [kGrid] extra bytes
#ifndef HEED_ENGINE_ATTENTION_TOKEN_PAGES_H_
#define HEED_ENGINE_ATTENTION_TOKEN_PAGES_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/base/archive.h"
#include "engine/base/memory.h"
#include "engine/base/round.h"
#include "engine/tensor/tensor.h"

namespace heed {

// Copies share full pages, and have the last one for themselves if it is not full.
class TokenPages {
 public:
  // Rows to be written.
  struct Place {
    Rows keys, values;
  };

  TokenPages(DType type, int64_t head_dim, int64_t extra_bytes);
  TokenPages(const TokenPages& other);
  TokenPages(TokenPages&&) = default;

  int64_t tokens() const { return tokens_; }
  // Makes room for the next n tokens, which are read after they are written.
  void Grow(int64_t n);
  // Where tokens that Grow() made room for are written, from `token` on, within one page and in ascending
  // order. Threads may write different pages.
  Place Open(int64_t token, int64_t count);
  const void* Key(int64_t token) const { return At(token, 0, row_bytes_); }
  const void* Value(int64_t token) const { return At(token, kGrid * row_bytes_, row_bytes_); }
  void* Extra(int64_t token) const { return At(token, 2 * kGrid * row_bytes_, extra_bytes_); }

  void Archive(StateArchive& archive, int64_t tokens);  // restores into an empty one
  static int64_t Bytes(DType type, int64_t head_dim, int64_t extra_bytes, int64_t tokens);

 private:
  char* At(int64_t token, int64_t offset, int64_t bytes) const {
    return pages_[token / kGrid]->as<char>() + offset + token % kGrid * bytes;
  }
  int64_t page_bytes() const { return Bytes(type_, head_dim_, extra_bytes_, 1); }

  DType type_;
  int64_t head_dim_, row_bytes_, extra_bytes_;
  int64_t tokens_ = 0;
  std::vector<std::shared_ptr<Buffer>> pages_;
};

// The tokens [from, to) are taken in by so many tasks, of which no two write the same page: f(token, count)
// for each run of tokens within a page that the cut-th of them takes.
inline int64_t TakenCuts(int64_t from, int64_t to) {
  return Quotient(from % kTakenRows + to - from, kTakenRows);
}
template <typename F>
void ForTakenPages(int64_t from, int64_t to, int64_t cut, F f) {
  const int64_t begin = RoundDown(from, kTakenRows) + cut * kTakenRows,
                end = std::min(begin + kTakenRows, to);
  for (int64_t token = std::max(from, begin), count; token < end; token += count) {
    count = std::min(kGrid - token % kGrid, end - token);
    f(token, count);
  }
}

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_TOKEN_PAGES_H_
