#include "engine/attention/few_keys.h"

#include <algorithm>
#include <span>

#include "engine/base/round.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kMostRows = 4 * kGrid;  // of one task

// The rows themselves, or a copy in the type.
Rows InType(const Rows& rows, DType type, Scratch& scratch) {
  if (rows.dtype == type) return rows;
  const Rows copy{type, scratch.Take<char>(rows.rows * rows.cols * SizeOf(type)), rows.rows, rows.cols,
                  rows.cols};
  Convert(rows, copy);
  return copy;
}

}  // namespace

FewKeys::FewKeys(const SoftmaxCore& core, int heads)
    : core_(&core), heads_(heads, KeyValuePages(core.type(), core.head_dim())) {}

void FewKeys::Grow(int64_t keys) {
  for (KeyValuePages& head : heads_) head.Grow(keys);
}

void FewKeys::Write(int head, int64_t first, const Rows& keys, const Rows& values, Scratch& scratch) {
  for (int64_t row = 0, count; row < keys.rows; row += count) {
    const ScratchFrame frame(scratch);
    count = std::min(kWritten, keys.rows - row);
    const Rows k = InType(keys.Slice(row, count), core_->type(), scratch),
               v = InType(values.Slice(row, count), core_->type(), scratch);
    heads_[head].Write(first + row, k, v);
  }
}

int64_t FewKeys::WriteScratchBytes(const SoftmaxCore& core) {
  return 2 * Scratch::Piece(kWritten * core.head_dim() * SizeOf(core.type()));
}

AttentionStage FewKeys::Cut(int64_t rows, double more) {
  const double row_cost = RowCost(*core_, keys()) + more;
  rows_ = rows;
  rows_of_task_ =
      std::clamp(static_cast<int64_t>(kTaskCost / row_cost), int64_t{1}, std::min(kMostRows, rows));
  return {std::ssize(heads_) * Quotient(rows, rows_of_task_), row_cost * static_cast<double>(rows_of_task_)};
}

FewKeys::Task FewKeys::At(int64_t task) const {
  const int64_t tasks = Quotient(rows_, rows_of_task_), row = task % tasks * rows_of_task_;
  return {static_cast<int>(task / tasks), row, std::min(rows_of_task_, rows_ - row)};
}

void FewKeys::Attend(int head, const Rows& q, const Rows& out, Scratch& scratch) const {
  SoftmaxQueries queries;
  queries.q = q;
  queries.out = out;
  const KeySource all{.pages = &heads_[head]};
  core_->Attend(queries, {&all, 1}, scratch);
}

void FewKeys::Archive(StateArchive& archive, int64_t keys) {
  for (KeyValuePages& head : heads_) head.Archive(archive, 0, keys);
}

int64_t FewKeys::Bytes(const SoftmaxCore& core, int heads, int64_t keys) {
  return heads * KeyValuePages::Bytes(core.type(), core.head_dim(), 0, keys);
}

}  // namespace heed
