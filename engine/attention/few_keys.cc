#include "engine/attention/few_keys.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/log/check.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kMostRows = 4 * kGrid;  // of one task
constexpr int64_t kMostTokens = int64_t{1} << 40;

// The rows themselves, or a copy in the type.
Rows InType(const Rows& rows, DType type, Scratch& scratch) {
  if (rows.dtype == type) return rows;
  const Rows copy{type, scratch.Take<char>(rows.rows * rows.cols * SizeOf(type)), rows.rows, rows.cols,
                  rows.cols};
  Convert(rows, copy);
  return copy;
}

}  // namespace

FewKeysAttention::FewKeysAttention(const AttentionSetting& setting, int64_t head_dim,
                                   std::vector<Product> products)
    : core_(ActivationType(setting.precision), head_dim, 1 / std::sqrt(static_cast<double>(head_dim))),
      heads_(setting.num_heads) {
  products_ = std::move(products);
  out_width_ = setting.width;
  decode_ = DecodeClass::kNone;
}

int64_t FewKeysAttention::KeyBytes(int64_t tokens) const {
  return static_cast<int64_t>(sizeof(int64_t)) +
         heads_ * KeyValuePages::Bytes(core_.type(), core_.head_dim(), 0, Keys(tokens));
}

int64_t FewKeysAttention::WriteScratchBytes() const {
  return 2 * Scratch::Piece(FewKeysRun::kWritten * core_.head_dim() * SizeOf(core_.type()));
}

void RefuseAllButEncoders(const AttentionSetting& setting, std::string_view name, std::string_view why,
                          JsonFields& fields) {
  if (setting.cross) fields.Fail(Cat(name, " has no keys of another sequence; it is self-attention only"));
  if (setting.causal)
    fields.Fail(Cat(name, " is for encoders only: ", why, ", so that a decoder would see the future"));
}

FewKeysRun::FewKeysRun(const FewKeysAttention& attention)
    : attention_(&attention),
      heads_(attention.heads(), KeyValuePages(attention.core().type(), attention.core().head_dim())) {}

std::vector<AttentionStage> FewKeysRun::Begin(const AttentionRows& rows) {
  CHECK(tokens_ == 0 && rows.count > 0 && rows.source_count == rows.count);  // an encoder's rows come whole
  CHECK(attention_->max_tokens() == 0 || rows.count <= attention_->max_tokens());
  tokens_ = rows.count;
  for (KeyValuePages& head : heads_) head.Grow(attention_->Keys(tokens_));
  std::vector<AttentionStage> stages = Plan();
  making_ = static_cast<int>(std::ssize(stages));
  const double cost = attention_->RowCost(tokens_);
  attend_rows_ = std::clamp(static_cast<int64_t>(kTaskCost / cost), int64_t{1}, std::min(kMostRows, tokens_));
  stages.push_back(
      {std::ssize(heads_) * Quotient(tokens_, attend_rows_), cost * static_cast<double>(attend_rows_)});
  return stages;
}

void FewKeysRun::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  if (stage < making_) return Make(rows, stage, task, scratch);
  const int64_t tasks = Quotient(tokens_, attend_rows_), row = task % tasks * attend_rows_;
  Attend(rows, static_cast<int>(task / tasks), {row, std::min(tokens_, row + attend_rows_)}, scratch);
}

void FewKeysRun::Write(int head, int64_t first, const Rows& keys, const Rows& values, Scratch& scratch) {
  const DType type = attention_->core().type();
  for (int64_t row = 0, count; row < keys.rows; row += count) {
    const ScratchFrame frame(scratch);
    count = std::min(kWritten, keys.rows - row);
    const Rows k = InType(keys.Slice(row, count), type, scratch),
               v = InType(values.Slice(row, count), type, scratch);
    heads_[head].Write(first + row, k, v);
  }
}

void FewKeysRun::Attend(const AttentionRows& rows, int head, Range range, Scratch& scratch) const {
  AttendTo(head, attention_->Part(rows.products[0], head, range.begin, range.size()),
           attention_->Part(rows.out, head, range.begin, range.size()), scratch);
}

void FewKeysRun::AttendTo(int head, const Rows& q, const Rows& out, Scratch& scratch) const {
  SoftmaxQueries queries;
  queries.q = q;
  queries.out = out;
  const KeySource all{.pages = &heads_[head]};
  attention_->core().Attend(queries, {&all, 1}, scratch);
}

void FewKeysRun::Archive(StateArchive& archive) {
  const int64_t most = attention_->max_tokens();
  archive.Number(tokens_, 0, most > 0 ? most : kMostTokens);
  for (KeyValuePages& head : heads_) head.Archive(archive, 0, attention_->Keys(tokens_));
}

}  // namespace heed
