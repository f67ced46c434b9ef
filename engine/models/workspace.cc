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
  return std::clamp(rows, kMaxBlockRows, stack.block_rows());
}

// What others read has a row also where none comes: they are given a place.
int64_t SourceRows(int64_t rows) { return std::max<int64_t>(rows, 1); }

}  // namespace

int64_t Workspace::bytes() const {
  int64_t sum = answers.bytes() + outputs.bytes() + hidden[0].bytes() + hidden[1].bytes();
  for (const SetBuffers& set : sets) sum += set.bytes();
  for (const auto& block : blocks) sum += block->bytes();
  for (const Scratch& s : scratch) sum += static_cast<int64_t>(s.bytes());
  return sum;
}

int64_t Workspaces::Bytes(const Stack& stack, Precision precision, const WorkspaceSize& size, int threads) {
  const DType type = ActivationType(precision);
  int64_t sum = threads * stack.scratch_bytes();
  for (size_t s = 0; s < size.rows.size(); ++s) {
    const RowSet& set = stack.sets()[s];
    const int64_t rows = size.rows[s];
    sum += RowBuffer::Bytes(rows, set.width, DType::kF32) + RowBuffer::Bytes(rows, set.products_width, type) +
           RowBuffer::Bytes(rows, set.attended_width, type);
    if (set.inputs_width > 0) sum += RowBuffer::Bytes(rows, set.inputs_width, DType::kF32);
    if (set.source_products_width > 0)
      sum += RowBuffer::Bytes(SourceRows(rows), set.source_products_width, type);
  }
  if (size.answers > 0) {
    sum += RowBuffer::Bytes(size.answers, stack.width(), DType::kF32) +
           RowBuffer::Bytes(size.answers, size.output_width, DType::kF32);
    if (size.hidden_width > 0) sum += 2 * RowBuffer::Bytes(size.answers, size.hidden_width, DType::kF32);
  }
  const int64_t first = FirstRows(stack, *std::ranges::max_element(size.rows));
  return sum + BlockBuffers::Bytes(stack.WidthsOf(first), precision) +
         (threads - 1) * BlockBuffers::Bytes(stack.WidthsOf(kMaxBlockRows), precision);
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
  const DType type = ActivationType(precision);
  workspace->sets.resize(stack.sets().size());
  for (size_t s = 0; s < size.rows.size(); ++s) {
    const RowSet& set = stack.sets()[s];
    const int64_t rows = size.rows[s];
    SetBuffers& buffers = workspace->sets[s];
    Grow(buffers.x, rows, set.width, DType::kF32);
    if (set.inputs_width > 0) Grow(buffers.inputs, rows, set.inputs_width, DType::kF32);
    Grow(buffers.products, rows, set.products_width, type);
    Grow(buffers.attended, rows, set.attended_width, type);
    if (set.source_products_width > 0)
      Grow(buffers.source_products, SourceRows(rows), set.source_products_width, type);
  }
  if (size.answers > 0) {
    Grow(workspace->answers, size.answers, stack.width(), DType::kF32);
    Grow(workspace->outputs, size.answers, size.output_width, DType::kF32);
    for (RowBuffer& hidden : workspace->hidden) {
      if (size.hidden_width > 0) Grow(hidden, size.answers, size.hidden_width, DType::kF32);
    }
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
    workspace.blocks.push_back(std::make_unique<BlockBuffers>(stack.WidthsOf(kMaxBlockRows), precision));
    workspace.scratch.emplace_back();
  }
  const int64_t first = FirstRows(stack, rows);
  if (workspace.blocks[0]->rows() < first)
    workspace.blocks[0] = std::make_unique<BlockBuffers>(stack.WidthsOf(first), precision);
  const int64_t bytes = stack.scratch_bytes();
  for (Scratch& scratch : workspace.scratch) scratch.Reserve(bytes);
}

}  // namespace heed
