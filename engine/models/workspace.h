// The buffers of a pass, kept between passes: a decode step must not pay for fresh memory.
#ifndef HEED_ENGINE_MODELS_WORKSPACE_H_
#define HEED_ENGINE_MODELS_WORKSPACE_H_

#include <memory>
#include <mutex>
#include <vector>

#include "engine/blocks/row_block.h"
#include "engine/models/stack.h"

namespace heed {

// One pass's buffers. Rows of all sequences lie one after another.
struct Workspace {
  RowBuffer x;                // [rows, width] f32: the residual stream
  RowBuffer products;         // [rows, products width] activation type: what attention reads
  RowBuffer source_products;  // [source rows, ...] activation type: what cross-attention reads of a source
  RowBuffer attended;         // [rows, attended width] activation type: what it writes
  RowBuffer answers;          // [answer rows, width] f32: rows that the head reads
  RowBuffer outputs;          // [answer rows, output width] f32
  std::vector<std::unique_ptr<BlockBuffers>> blocks;  // one a thread; a team of all uses the first
  std::vector<Scratch> scratch;                       // one a thread

  int64_t bytes() const;
};

// How much room a pass needs.
struct WorkspaceSize {
  int64_t rows = 0;
  int64_t source_rows = 0;
  int64_t answers = 0;  // rows that the head reads at a time
  int64_t output_width = 0;
};

// Makes workspaces large enough, and keeps those that come back. Thread-safe.
class Workspaces {
 public:
  // Larger ones are freed when they come back: a lone huge input must not hold its memory for ever.
  static constexpr int64_t kKeepBytes = int64_t{96} << 20;

  // All for one stack.
  std::unique_ptr<Workspace> Take(const Stack& stack, Precision precision, const WorkspaceSize& size);
  void Return(std::unique_ptr<Workspace> workspace);
  // Block buffers and scratch for threads that the workspace has not yet.
  static void AddThreads(Workspace& workspace, const Stack& stack, Precision precision, int threads);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_;  // guarded by mutex_
};

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_WORKSPACE_H_
