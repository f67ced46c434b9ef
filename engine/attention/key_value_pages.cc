#include "engine/attention/key_value_pages.h"

#include <algorithm>
#include <cstring>

#include "absl/log/check.h"
#include "engine/ops/pack.h"
#include "engine/ops/softmax.h"

namespace heed {
namespace {

constexpr int64_t kWord = 4;  // bytes of a float, or of a pair of bf16

int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
int64_t ValuePitch(int64_t head_dim) { return RoundUp(head_dim, 16); }
int64_t KeyRows(DType type, int64_t head_dim) { return type == DType::kBf16 ? (head_dim + 1) / 2 : head_dim; }

int64_t PageBytes(DType type, int64_t head_dim) {
  return KeyValuePages::kPage * (KeyRows(type, head_dim) * kWord + ValuePitch(head_dim) * SizeOf(type));
}

}  // namespace

KeyValuePages::KeyValuePages(DType type, int64_t head_dim)
    : type_(type),
      head_dim_(head_dim),
      value_pitch_(ValuePitch(head_dim)),
      key_rows_(KeyRows(type, head_dim)),
      key_bytes_(key_rows_ * kPage * kWord) {}

KeyValuePages::KeyValuePages(const KeyValuePages& other)
    : type_(other.type_),
      head_dim_(other.head_dim_),
      value_pitch_(other.value_pitch_),
      key_rows_(other.key_rows_),
      key_bytes_(other.key_bytes_),
      begin_(other.begin_),
      end_(other.end_),
      pages_(other.pages_) {
  if (end_ % kPage != 0) pages_.back() = std::make_shared<Buffer>(*pages_.back());
}

int64_t KeyValuePages::Bytes(DType type, int64_t head_dim, int64_t begin, int64_t end) {
  return (RoundUp(end, kPage) - begin / kPage * kPage) / kPage * PageBytes(type, head_dim);
}

void KeyValuePages::Append(const Rows& keys, const Rows& values) {
  CHECK(keys.dtype == type_ && values.dtype == type_ && keys.rows == values.rows);
  for (int64_t row = 0; row < keys.rows;) {
    const int64_t place = end_ % kPage;
    if (place == 0) pages_.push_back(std::make_shared<Buffer>(PageBytes(type_, head_dim_)));
    const int64_t count = std::min(kPage - place, keys.rows - row);
    Fill(keys.Slice(row, count), values.Slice(row, count), place);
    row += count;
    end_ += count;
  }
}

void KeyValuePages::Fill(const Rows& keys, const Rows& values, int64_t place) {
  PackColumns(keys, place, kPage, KeysOf(pages_.back()));
  PackRows(values, place, value_pitch_, ValuesOf(pages_.back()));
  const int64_t end = place + keys.rows;
  if (RoundUp(place, kSoftmaxPiece) < end) ClearBehind(pages_.back(), end);  // else it was clear before
}

void KeyValuePages::ClearBehind(const Page& page, int64_t place) {
  const int64_t packed = PackedValueBytes(place);
  const int64_t piece_end = RoundUp(place, kSoftmaxPiece) * value_pitch_ * SizeOf(type_);
  std::memset(ValuesOf(page) + packed, 0, piece_end - packed);
}

int64_t KeyValuePages::PackedValueBytes(int64_t rows) const {
  return RoundUp(rows, type_ == DType::kBf16 ? 2 : 1) * value_pitch_ * SizeOf(type_);
}

void KeyValuePages::DropBefore(int64_t position) {
  const int64_t whole = std::max<int64_t>(0, (std::min(position, end_) - begin_) / kPage);
  pages_.erase(pages_.begin(), pages_.begin() + whole);
  begin_ += whole * kPage;
}

const void* KeyValuePages::Keys(int64_t position) const {
  return KeysOf(PageOf(position)) + position % kPage * kWord;
}

const void* KeyValuePages::Values(int64_t position) const {
  return ValuesOf(PageOf(position)) + position % kPage * value_pitch_ * SizeOf(type_);
}

void KeyValuePages::Archive(StateArchive& archive, int64_t begin, int64_t end) {
  if (archive.restoring()) {
    CHECK(end_ == 0 && begin % kPage == 0 && begin <= end);
    begin_ = end_ = begin;
  }
  for (int64_t first = begin; first < end && archive.status().ok(); first += kPage) {
    if (archive.restoring()) pages_.push_back(std::make_shared<Buffer>(PageBytes(type_, head_dim_)));
    ArchivePage(archive, PageOf(first), std::min(kPage, end - first));
    if (archive.restoring()) end_ = std::min(first + kPage, end);
  }
}

void KeyValuePages::ArchivePage(StateArchive& archive, const Page& page, int64_t used) {
  if (archive.measuring()) return archive.Bytes(*page, page->size());
  for (int64_t k = 0; k < key_rows_; ++k) archive.Bytes(KeysOf(page) + k * kPage * kWord, used * kWord);
  archive.Bytes(ValuesOf(page), PackedValueBytes(used));
  if (archive.restoring()) ClearBehind(page, used);
}

}  // namespace heed
