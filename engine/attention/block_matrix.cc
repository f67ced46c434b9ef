#include "engine/attention/block_matrix.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "engine/base/round.h"
#include "engine/ops/few_rows.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/pack.h"

namespace heed {
namespace {

constexpr int64_t kPageTokens = 512;
constexpr int64_t kMostBlocks = 32;  // of a page
// Pages that one call of the micro-kernel reads, side by side.
constexpr int64_t kPagesAtOnce = 8;
// Panels whose sums stay in L2 while all pages are read.
constexpr int64_t kPanelsAtOnce = 32;
// Up to so many mixtures wait for memory, not for arithmetic.
constexpr int64_t kWaitingRows = 8;

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

// Pages lie apart, and of each some panels are read that lie side by side.
void BlockMatrix::Mix(const Rows& weights, Matrix<float> mixed) const {
  const bool by_hand =
      weights.rows <= kWaitingRows && (width_ == 32 || width_ == 64) && CanMultiplyFewRows(weights);
  const int64_t pages = Quotient(weights.cols, page_blocks_), panels = 2 * block_;
  for (int64_t panel = 0; panel < panels; panel += kPanelsAtOnce) {
    const Range beside{panel, std::min(panels, panel + kPanelsAtOnce)};
    for (int64_t first = 0; first < pages; first += kPagesAtOnce) {
      const Range at_once{first, std::min(pages, first + kPagesAtOnce)};
      if (by_hand) {
        MixByHand(weights, at_once, beside, mixed);
      } else {
        MixPages(weights, at_once, beside, mixed);
      }
    }
  }
}

void BlockMatrix::MixPages(const Rows& weights, Range pages, Range panels, Matrix<float> mixed) const {
  const MicroKernel* kernel = MicroKernel::Get({.a = type_,
                                                .m = RoundRows(static_cast<int>(weights.rows)),
                                                .n = static_cast<int>(width_),
                                                .k = static_cast<int>(page_blocks_),
                                                .batch = static_cast<int>(pages.size()),
                                                .lda = weights.stride,
                                                .ldb = width_,
                                                .ldc = mixed.stride,
                                                .add = pages.begin > 0});
  std::array<MicroKernel::Offsets, kPagesAtOnce> offsets;
  const auto begin = reinterpret_cast<intptr_t>(Panel(pages.begin, 0));
  for (int64_t i = 0; i < pages.size(); ++i)
    offsets[i] = {i * page_blocks_ * SizeOf(type_),
                  reinterpret_cast<intptr_t>(Panel(pages.begin + i, 0)) - begin};
  for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
    kernel->Run(weights.at(0, pages.begin * page_blocks_), Panel(pages.begin, panel), offsets.data(),
                mixed.data + panel * width_);
  }
}

void BlockMatrix::MixByHand(const Rows& weights, Range pages, Range panels, Matrix<float> mixed) const {
  std::array<PanelPiece, kPagesAtOnce> pieces;
  for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
    for (int64_t i = 0; i < pages.size(); ++i)
      pieces[i] = {Panel(pages.begin + i, panel), page_blocks_};  // ahead: the next panel
    MultiplyFewRows({.a = weights.Cols(pages.begin * page_blocks_, pages.size() * page_blocks_),
                     .panel = std::span(pieces).first(pages.size()),
                     .sums = mixed.data + panel * width_,
                     .add = pages.begin > 0,
                     .width = static_cast<int>(width_),
                     .ld = mixed.stride});
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
