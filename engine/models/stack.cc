#include "engine/models/stack.h"

#include <algorithm>

namespace heed {
namespace {

// Whether the rows' labels are given, and are this attention's affair.
bool Reads(const Attention& attention, int64_t labelled) {
  return labelled >= 0 && attention.labels().kind != RowLabel::kNone;
}

}  // namespace

void Stack::Measure(int64_t width) {
  widths = {.width = width, .reads = width, .shared_bytes = 0};
  for (const Step& step : steps) {
    products_width = std::max(products_width, step.attention.products_width());
    source_products_width = std::max(source_products_width, step.attention.source_products_width());
    attended_width = std::max(attended_width, step.attention.attention().out_width());
    widths.reads = std::max(widths.reads, attended_width);
    if (!step.feed_forward) continue;
    const FeedForward& feed_forward = step.feed_forward->feed_forward();
    widths.reads = std::max(widths.reads, feed_forward.reads());
    block_rows = std::max(block_rows, feed_forward.block_rows());
  }
  widths = WidthsOf(kMaxBlockRows);
}

int64_t Stack::BlockRows(size_t step) const {
  const auto& feed_forward = steps[step].feed_forward;
  return feed_forward ? feed_forward->feed_forward().block_rows() : kMaxBlockRows;
}

BlockWidths Stack::WidthsOf(int64_t block_rows) const {
  BlockWidths of = widths;
  of.rows = block_rows;
  for (const Step& step : steps) {
    if (step.feed_forward)
      of.shared_bytes = std::max(of.shared_bytes, step.feed_forward->feed_forward().SharedBytes(block_rows));
  }
  return of;
}

int64_t Stack::weight_bytes() const {
  int64_t bytes = 0;
  for (const Step& step : steps) {
    bytes += step.attention.weight_bytes();
    if (step.feed_forward) bytes += step.feed_forward->feed_forward().weight_bytes();
  }
  return bytes;
}

int64_t Stack::StateBytes(int64_t tokens, int64_t source) const {
  int64_t sum = 0, pass = 0;
  for (const Step& step : steps) {
    const Attention& attention = step.attention.attention();
    sum += attention.StateBytes(step.attention.cross() ? source : tokens);
    pass = std::max(pass, attention.PassBytes());
  }
  return sum + pass;
}

int64_t Stack::LargestStateBytes(int64_t tokens, int64_t labelled) const {
  int64_t largest = 0;
  for (const Step& step : steps) {
    const Attention& attention = step.attention.attention();
    const int64_t bytes = Reads(attention, labelled) ? attention.LabelledStateBytes(tokens, labelled)
                                                     : attention.StateBytes(tokens);
    largest = std::max(largest, bytes + attention.PassBytes());
  }
  return largest;
}

int64_t Stack::ScratchBytes() const {
  int64_t most = std::max(GemmScratchBytes(), Scratch::Piece(widths.width * SizeOf(DType::kF32)));
  for (const Step& step : steps) {
    most = std::max(most, step.attention.attention().ScratchBytes());
    if (step.feed_forward) most = std::max(most, step.feed_forward->feed_forward().scratch_bytes());
  }
  return most;
}

double Stack::multiply_adds(int64_t n, int64_t source, int64_t labelled) const {
  double sum = 0;
  for (const Step& step : steps) {
    const AttentionSublayer& attention = step.attention;
    sum += attention.multiply_adds() * n + attention.source_multiply_adds() * source;
    if (Reads(attention.attention(), labelled)) {
      sum += attention.apart_multiply_adds() * labelled + attention.attention().LabelledCost(n, labelled);
    } else {
      sum += attention.attention().Cost(n, attention.cross() ? source : n);
    }
    if (step.feed_forward) sum += step.feed_forward->feed_forward().multiply_adds() * n;
  }
  return sum;
}

}  // namespace heed
