#include "engine/attention/block_matrix.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "engine/base/round.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/pack.h"

namespace heed {
namespace {

constexpr int64_t kPageTokens = 512;
constexpr int64_t kMostBlocks = 32;  // of a page
// Pages that one call of the micro-kernel reads, side by side.
constexpr int64_t kPagesAtOnce = 8;

int64_t PageBlocks(int64_t block) {
  const uint64_t blocks = std::clamp<int64_t>(kPageTokens / block, 2, kMostBlocks);
  return static_cast<int64_t>(std::bit_floor(blocks));
}

}  // namespace

BlockMatrix::BlockMatrix(DType type, int64_t head_dim, int64_t block)
    : type_(type),
      head_dim_(head_dim),
      block_(block),
      width_(RoundUp(head_dim, 16)),
      page_blocks_(PageBlocks(block)) {}

BlockMatrix::BlockMatrix(const BlockMatrix& other)
    : type_(other.type_),
      head_dim_(other.head_dim_),
      block_(other.block_),
      width_(other.width_),
      page_blocks_(other.page_blocks_),
      tokens_(other.tokens_),
      pages_(other.pages_) {
  if (tokens_ % page_tokens() != 0) pages_.back() = std::make_shared<Buffer>(*pages_.back());
}

int64_t BlockMatrix::Bytes(int64_t tokens) const { return Quotient(tokens, page_tokens()) * page_bytes(); }

void BlockMatrix::Grow(int64_t n) {
  for (tokens_ += n; std::ssize(pages_) * page_tokens() < tokens_;)
    pages_.push_back(std::make_shared<Buffer>(Buffer::Lasting(page_bytes())));
}

// What lies at one place of its block is a panel: of all blocks at once, a row each.
void BlockMatrix::Write(int64_t page, int64_t first, const Rows& keys, const Rows& values) const {
  const int64_t begin = std::max(first, page * page_tokens());
  const int64_t end = std::min(first + keys.rows, (page + 1) * page_tokens());
  if (begin == page * page_tokens()) std::memset(Panel(page, 0), 0, page_bytes());
  for (int64_t token = begin; token < std::min(end, begin + block_); ++token) {  // each place's first
    const int64_t row = token / block_ - page * page_blocks_;
    const auto pack = [&](const Rows& tokens, int64_t panel) {
      const Rows of_place{type_, tokens.at(token - first), Quotient(end - token, block_), head_dim_,
                          tokens.stride * block_};
      PackRows(of_place, row, width_, Panel(page, panel));
    };
    pack(keys, token % block_);
    pack(values, block_ + token % block_);
  }
}

// Pages lie apart, and each is read from its beginning to its end.
void BlockMatrix::Mix(const Rows& weights, Matrix<float> mixed) const {
  const int64_t pages = Quotient(weights.cols, page_blocks_);
  for (int64_t first = 0; first < pages; first += kPagesAtOnce) {
    const int64_t count = std::min(kPagesAtOnce, pages - first);
    const MicroKernel* kernel = MicroKernel::Get({.a = type_,
                                                  .m = RoundRows(static_cast<int>(weights.rows)),
                                                  .n = static_cast<int>(width_),
                                                  .k = static_cast<int>(page_blocks_),
                                                  .batch = static_cast<int>(count),
                                                  .lda = weights.stride,
                                                  .ldb = width_,
                                                  .ldc = mixed.stride,
                                                  .add = first > 0});
    std::array<MicroKernel::Offsets, kPagesAtOnce> offsets;
    for (int64_t i = 0; i < count; ++i) {
      const intptr_t distance =
          reinterpret_cast<intptr_t>(Panel(first + i, 0)) - reinterpret_cast<intptr_t>(Panel(first, 0));
      offsets[i] = {i * page_blocks_ * SizeOf(type_), distance};
    }
    for (int64_t panel = 0; panel < 2 * block_; ++panel) {
      kernel->Run(weights.at(0, first * page_blocks_), Panel(first, panel), offsets.data(),
                  mixed.data + panel * width_);
    }
  }
}

void BlockMatrix::Archive(StateArchive& archive, int64_t tokens) {
  if (archive.restoring()) tokens_ = tokens;
  for (int64_t first = 0; first < tokens && archive.status().ok(); first += page_tokens()) {
    if (archive.restoring()) pages_.push_back(std::make_shared<Buffer>(Buffer::Lasting(page_bytes())));
    Buffer& page = *pages_[first / page_tokens()];
    archive.Bytes(page, static_cast<int64_t>(page.size()));
  }
}

}  // namespace heed
