#include "engine/attention/token_pages.h"

#include <cstring>

namespace heed {

TokenPages::TokenPages(DType type, int64_t head_dim, int64_t extra_bytes)
    : type_(type), head_dim_(head_dim), row_bytes_(head_dim * SizeOf(type)), extra_bytes_(extra_bytes) {}

TokenPages::TokenPages(const TokenPages& other)
    : type_(other.type_),
      head_dim_(other.head_dim_),
      row_bytes_(other.row_bytes_),
      extra_bytes_(other.extra_bytes_),
      tokens_(other.tokens_),
      pages_(other.pages_) {
  if (tokens_ % kGrid != 0) pages_.back() = std::make_shared<Buffer>(*pages_.back());
}

int64_t TokenPages::Bytes(DType type, int64_t head_dim, int64_t extra_bytes, int64_t tokens) {
  return (tokens + kGrid - 1) / kGrid * kGrid * (2 * head_dim * SizeOf(type) + extra_bytes);
}

void TokenPages::Grow(int64_t n) {
  for (tokens_ += n; std::ssize(pages_) * kGrid < tokens_;)
    pages_.push_back(std::make_shared<Buffer>(Buffer::Lasting(page_bytes())));
}

// Whole pages are saved, so that a page's first token clears it.
TokenPages::Place TokenPages::Open(int64_t token, int64_t count) {
  if (token % kGrid == 0) std::memset(At(token, 0, 0), 0, page_bytes());
  return {{type_, At(token, 0, row_bytes_), count, head_dim_, head_dim_},
          {type_, At(token, kGrid * row_bytes_, row_bytes_), count, head_dim_, head_dim_}};
}

void TokenPages::Archive(StateArchive& archive, int64_t tokens) {
  if (archive.restoring()) tokens_ = tokens;
  for (int64_t first = 0; first < tokens && archive.status().ok(); first += kGrid) {
    if (archive.restoring()) pages_.push_back(std::make_shared<Buffer>(Buffer::Lasting(page_bytes())));
    Buffer& page = *pages_[first / kGrid];
    archive.Bytes(page, static_cast<int64_t>(page.size()));
  }
}

}  // namespace heed
