#include "engine/models/stack.h"

#include <algorithm>
#include <utility>

#include "absl/log/check.h"

namespace heed {

int Stack::AddSet(WorkInput input, int64_t width, bool remembered) {
  sets_.push_back({.input = input, .width = width, .remembered = remembered});
  scratch_bytes_ = std::max(scratch_bytes_, Scratch::Piece(width * SizeOf(DType::kF32)));  // of a pooled row
  return answered();
}

void Stack::Add(int set, std::unique_ptr<RowStep> step) {
  if (phases_.empty() || phases_.back().kind != Phase::Kind::kProgram || phases_.back().set != set)
    phases_.push_back({.kind = Phase::Kind::kProgram, .set = set});
  Phase& program = phases_.back();
  program.multiply_adds += step->multiply_adds();
  program.apart_multiply_adds += step->apart_multiply_adds();
  program.block_rows = std::max(program.block_rows, step->block_rows());
  block_rows_ = std::max(block_rows_, program.block_rows);
  scratch_bytes_ = std::max(scratch_bytes_, step->scratch_bytes());
  program.steps.push_back(std::move(step));
}

void Stack::AddAttention(int set, AttentionSublayer of, int source) {
  CHECK_EQ(of.cross(), source != kItself);
  const int number = static_cast<int>(attentions_.size());
  const auto index = std::ranges::count(attentions_, set, &Attend::set);
  const AttentionSublayer& sublayer =
      *attentions_
           .emplace_back(Attend{.set = set,
                                .source = source,
                                .index = static_cast<int>(index),
                                .sublayer = std::make_unique<AttentionSublayer>(std::move(of))})
           .sublayer;
  scratch_bytes_ = std::max(scratch_bytes_, sublayer.attention().ScratchBytes());
  RowSet& rows = sets_[set];
  rows.products_width = std::max(rows.products_width, sublayer.products_width());
  rows.attended_width = std::max(rows.attended_width, sublayer.attention().out_width());
  Add(set, std::make_unique<OpenStep>(sublayer));
  if (source != kItself) {
    int64_t& width = sets_[source].source_products_width;
    width = std::max(width, sublayer.source_products_width());
    Add(source, std::make_unique<OpenSourceStep>(sublayer));
    phases_.push_back({.kind = Phase::Kind::kTakeSource, .set = set, .attend = number});
  }
  phases_.push_back({.kind = Phase::Kind::kAttend, .set = set, .attend = number});
  Add(set, std::make_unique<CloseStep>(sublayer));
}

BlockWidths Stack::WidthsOf(int64_t block_rows) const {
  BlockWidths widths{.rows = block_rows};
  for (const RowSet& set : sets_) widths.width = std::max(widths.width, set.width);
  widths.reads = widths.width;
  for (const Phase& phase : phases_) {
    for (const auto& step : phase.steps) {
      widths.reads = std::max(widths.reads, step->reads());
      widths.shared_bytes = std::max(widths.shared_bytes, step->SharedBytes(block_rows));
    }
  }
  return widths;
}

int64_t Stack::weight_bytes() const {
  int64_t bytes = 0;
  for (const Phase& phase : phases_) {
    for (const auto& step : phase.steps) bytes += step->weight_bytes();
  }
  return bytes;
}

bool Stack::data_dependent() const {
  for (const Phase& phase : phases_) {
    for (const auto& step : phase.steps) {
      if (step->data_dependent()) return true;
    }
  }
  return std::ranges::any_of(attentions_, [](const Attend& a) { return a.attention().data_dependent(); });
}

bool Stack::Reads(const Attend& attend, int64_t labelled) const {
  return labelled >= 0 && !sets_[attend.set].remembered &&
         attend.attention().labels().kind != RowLabel::kNone;
}

int64_t Stack::StateBytes(int64_t tokens, int64_t source) const {
  int64_t sum = 0, pass = 0;
  for (const Attend& attend : attentions_) {
    if (!sets_[attend.set].remembered) continue;
    const int set = attend.cross() ? attend.source : attend.set;
    sum += attend.attention().StateBytes(RowsOf(set, tokens, source));
    pass = std::max(pass, attend.attention().PassBytes());
  }
  return sum + pass;
}

int64_t Stack::LargestStateBytes(int64_t tokens, int64_t source, int64_t labelled) const {
  int64_t largest = 0;
  for (const Attend& attend : attentions_) {
    if (sets_[attend.set].remembered) continue;
    const Attention& attention = attend.attention();
    const int64_t rows = RowsOf(attend.cross() ? attend.source : attend.set, tokens, source);
    const int64_t bytes =
        Reads(attend, labelled) ? attention.LabelledStateBytes(rows, labelled) : attention.StateBytes(rows);
    largest = std::max(largest, bytes + attention.PassBytes());
  }
  return largest;
}

double Stack::multiply_adds(int64_t tokens, int64_t source, int64_t labelled) const {
  double sum = 0;
  for (const Phase& phase : phases_) {
    const int64_t n = RowsOf(phase.set, tokens, source);
    sum += phase.multiply_adds * static_cast<double>(n);
    if (phase.kind != Phase::Kind::kAttend) continue;
    const Attend& attend = attentions_[phase.attend];
    if (Reads(attend, labelled)) {
      sum += attend.sublayer->apart_multiply_adds() * static_cast<double>(labelled) +
             attend.attention().LabelledCost(n, labelled);
    } else {
      sum += attend.attention().Cost(n, attend.cross() ? RowsOf(attend.source, tokens, source) : n);
    }
  }
  return sum;
}

}  // namespace heed
