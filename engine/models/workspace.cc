#include "engine/models/workspace.h"

#include <algorithm>

namespace heed {
namespace {

// A buffer of at least `rows` rows; what it had is lost if it was too small.
void Grow(RowBuffer& buffer, int64_t rows, int64_t cols, DType dtype) {
  if (buffer.rows().rows < rows || buffer.rows().cols < cols) buffer = RowBuffer(rows, cols, dtype);
}

// Rows of the first thread's block, in a pass of so many.
int64_t FirstRows(const Stack& stack, int64_t rows) {
  return std::clamp(rows, kMaxBlockRows, stack.block_rows);
}

}  // namespace

int64_t Workspace::bytes() const {
  int64_t sum = x.bytes() + products.bytes() + source_products.bytes() + attended.bytes() + answers.bytes() +
                outputs.bytes();
  for (const auto& block : blocks) sum += block->bytes();
  for (const Scratch& s : scratch) sum += static_cast<int64_t>(s.bytes());
  return sum;
}

int64_t Workspaces::Bytes(const Stack& stack, Precision precision, const WorkspaceSize& size, int threads) {
  const DType type = ActivationType(precision);
  const int64_t source = stack.source_products_width;
  const int64_t source_rows = std::max<int64_t>(size.source_rows, 1);
  const int64_t rows = RowBuffer::Bytes(size.rows, stack.widths.width, DType::kF32) +
                       RowBuffer::Bytes(size.rows, stack.products_width, type) +
                       (source > 0 ? RowBuffer::Bytes(source_rows, source, type) : 0) +
                       RowBuffer::Bytes(size.rows, stack.attended_width, type);
  const int64_t answers = size.answers == 0
                              ? 0
                              : RowBuffer::Bytes(size.answers, stack.widths.width, DType::kF32) +
                                    RowBuffer::Bytes(size.answers, size.output_width, DType::kF32);
  return rows + answers + BlockBuffers::Bytes(stack.WidthsOf(FirstRows(stack, size.rows)), precision) +
         (threads - 1) * BlockBuffers::Bytes(stack.widths, precision) + threads * stack.ScratchBytes();
}

std::unique_ptr<Workspace> Workspaces::Take(const Stack& stack, Precision precision,
                                            const WorkspaceSize& size) {
  std::unique_ptr<Workspace> workspace;
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      workspace = std::move(free_.back());
      free_.pop_back();
      kept_bytes_ -= workspace->bytes();
    }
  }
  if (!workspace) workspace = std::make_unique<Workspace>();
  DType type = ActivationType(precision);
  Grow(workspace->x, size.rows, stack.widths.width, DType::kF32);
  Grow(workspace->products, size.rows, stack.products_width, type);
  if (stack.source_products_width > 0)  // a row also where no source comes: cross-attention is given a place
    Grow(workspace->source_products, std::max<int64_t>(size.source_rows, 1), stack.source_products_width,
         type);
  Grow(workspace->attended, size.rows, stack.attended_width, type);
  if (size.answers > 0) {
    Grow(workspace->answers, size.answers, stack.widths.width, DType::kF32);
    Grow(workspace->outputs, size.answers, size.output_width, DType::kF32);
  }
  return workspace;
}

void Workspaces::Return(std::unique_ptr<Workspace> workspace) {
  const int64_t bytes = workspace->bytes();
  std::lock_guard lock(mutex_);
  if (kept_bytes_ + bytes > kKeepBytes) return;
  kept_bytes_ += bytes;
  free_.push_back(std::move(workspace));
}

int64_t Workspaces::kept_bytes() const {
  std::lock_guard lock(mutex_);
  return kept_bytes_;
}

void Workspaces::AddThreads(Workspace& workspace, const Stack& stack, Precision precision, int64_t rows,
                            int threads) {
  while (static_cast<int>(workspace.blocks.size()) < threads) {
    workspace.blocks.push_back(std::make_unique<BlockBuffers>(stack.widths, precision));
    workspace.scratch.emplace_back();
  }
  const int64_t first = FirstRows(stack, rows);
  if (workspace.blocks[0]->rows() < first)
    workspace.blocks[0] = std::make_unique<BlockBuffers>(stack.WidthsOf(first), precision);
  const int64_t bytes = stack.ScratchBytes();
  for (Scratch& scratch : workspace.scratch) scratch.Reserve(bytes);
}

}  // namespace heed
