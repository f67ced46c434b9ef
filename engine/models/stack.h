// A stack of layers, as row programs with attention in between:
//   program 0: embed, open attention 0
//   program s: close attention s - 1 and its feed-forward, open attention s
//   the last:  close the last attention and its feed-forward
// A layer with cross-attention is two steps. Const and thread-safe.
#ifndef HEED_ENGINE_MODELS_STACK_H_
#define HEED_ENGINE_MODELS_STACK_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/blocks/embedding.h"
#include "engine/blocks/norm.h"
#include "engine/blocks/sublayer.h"

namespace heed {

// An attention and what follows it before the next one.
struct Step {
  AttentionSublayer attention;
  std::optional<FeedForwardSublayer> feed_forward;
};

struct Stack {
  Embedding embedding;
  std::vector<Step> steps;
  std::optional<Norm> norm;  // after the last step: pre-norm stacks

  // Of the residual stream and of what the steps' programs need, in blocks of kMaxBlockRows rows.
  BlockWidths widths;
  int64_t block_rows = kMaxBlockRows;  // the most that any step's feed-forward takes at once
  int64_t products_width = 0;          // widest of the steps
  int64_t source_products_width = 0;   // 0: no step is cross-attention
  int64_t attended_width = 0;

  // Brings `widths` and the others up to date after steps were added.
  void Measure(int64_t width);
  // The most rows that the feed-forward after a step takes at once.
  int64_t BlockRows(size_t step) const;
  // `widths` for blocks of so many rows.
  BlockWidths WidthsOf(int64_t block_rows) const;
  int64_t weight_bytes() const;
  // Closed form of what the runs of all steps hold, cross-attention's of a source of so many tokens, and of
  // what one of them does beside that while a pass is at its step.
  int64_t StateBytes(int64_t tokens, int64_t source) const;
  // Of one step; `labelled` as Model has it.
  int64_t LargestStateBytes(int64_t tokens, int64_t labelled) const;
  // Closed form: the most scratch that a thread takes for any task.
  int64_t ScratchBytes() const;
  // For a sequence of n rows with a source of so many, the model's head not counted; `labelled` as Model has
  // it.
  double multiply_adds(int64_t n, int64_t source, int64_t labelled) const;
};

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_STACK_H_
