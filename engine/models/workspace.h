// The buffers of a pass, kept between passes: a decode step must not pay for fresh memory.
#ifndef HEED_ENGINE_MODELS_WORKSPACE_H_
#define HEED_ENGINE_MODELS_WORKSPACE_H_

#include <memory>
#include <mutex>
#include <vector>

#include "engine/blocks/row_block.h"
#include "engine/models/stack.h"

namespace heed {

// The rows of one set of a stack, of all sequences one after another.
struct SetBuffers {
  RowBuffer x;                // [rows, width] f32: the residual stream
  RowBuffer inputs;           // [rows, inputs width] f32: numbers that rows begin with
  RowBuffer products;         // [rows, products width] activation type: what attention reads
  RowBuffer source_products;  // [rows, ...] activation type: what attentions of other sets read
  RowBuffer attended;         // [rows, attended width] activation type: what attention writes

  int64_t bytes() const {
    return x.bytes() + inputs.bytes() + products.bytes() + source_products.bytes() + attended.bytes();
  }
};

// One pass's buffers.
struct Workspace {
  std::vector<SetBuffers> sets;
  RowBuffer answers;    // [answer rows, width] f32: rows that the head reads
  RowBuffer outputs;    // [answer rows, output width] f32
  RowBuffer hidden[2];  // [answer rows, hidden width] f32: what the head's layers hand on
  // One a thread; a team uses its first's, which is as large as any step's feed-forward wants it.
  std::vector<std::unique_ptr<BlockBuffers>> blocks;
  std::vector<Scratch> scratch;  // one a thread

  int64_t bytes() const;
};

// How much room a pass needs.
struct WorkspaceSize {
  std::vector<int64_t> rows;  // of each set
  int64_t answers = 0;        // rows that the head reads at a time
  int64_t output_width = 0;
  int64_t hidden_width = 0;  // between the head's layers; 0: there is nothing
};

// Makes workspaces large enough, and keeps those that come back. Thread-safe.
class Workspaces {
 public:
  // That are kept in all: a workspace that would exceed it is freed when it comes back. A lone huge input
  // must not hold its memory for ever.
  static constexpr int64_t kKeepBytes = int64_t{96} << 20;

  // All for one stack.
  std::unique_ptr<Workspace> Take(const Stack& stack, Precision precision, const WorkspaceSize& size);
  void Return(std::unique_ptr<Workspace> workspace);
  // Block buffers and scratch for threads that the workspace has not yet, for a batch of so many rows.
  static void AddThreads(Workspace& workspace, const Stack& stack, Precision precision, int64_t rows,
                         int threads);
  // Closed form of a workspace that is made for such a pass; one that was kept is larger by at most
  // kKeepBytes.
  static int64_t Bytes(const Stack& stack, Precision precision, const WorkspaceSize& size, int threads);
  int64_t kept_bytes() const;

 private:
  mutable std::mutex mutex_;  // guards the two below
  std::vector<std::unique_ptr<Workspace>> free_;
  int64_t kept_bytes_ = 0;
};

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_WORKSPACE_H_
