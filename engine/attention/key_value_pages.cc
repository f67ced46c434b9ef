#include "engine/attention/key_value_pages.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/log/check.h"
#include "engine/base/round.h"
#include "engine/ops/pack.h"
#include "engine/ops/rows.h"
#include "engine/ops/softmax.h"

namespace heed {
namespace {

constexpr int64_t kWord = 4;  // bytes of a float, or of a pair of bf16

int64_t ValueColumns(int64_t head_dim) { return RoundUp(head_dim, 16); }

int64_t KeyPanelBytes(DType type, int64_t head_dim) {
  return kSoftmaxPiece * kWord * (type == DType::kBf16 ? (head_dim + 1) / 2 : head_dim);
}

// Into the second-level cache.
void Prefetch(const void* data, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += kAlignment)
    __builtin_prefetch(static_cast<const char*>(data) + i, 0, 2);
}

}  // namespace

KeyValuePages::KeyValuePages(DType type, int64_t head_dim, bool with_keys, int64_t page)
    : type_(type),
      head_dim_(head_dim),
      page_(page),
      page_bits_(std::countr_zero(static_cast<uint64_t>(page))),
      value_columns_(ValueColumns(head_dim)),
      key_panel_bytes_(with_keys ? KeyPanelBytes(type, head_dim) : 0) {}

KeyValuePages::KeyValuePages(const KeyValuePages& other)
    : type_(other.type_),
      head_dim_(other.head_dim_),
      page_(other.page_),
      page_bits_(other.page_bits_),
      value_columns_(other.value_columns_),
      key_panel_bytes_(other.key_panel_bytes_),
      begin_(other.begin_),
      end_(other.end_),
      pages_(other.pages_) {
  if (InPage(end_) != 0) last_shared_ = other.last_shared_ = true;
}

int64_t KeyValuePages::PageBytes(DType type, int64_t head_dim, int64_t used, bool with_keys, int64_t page) {
  if (IsLoose(page, used)) {
    const auto room = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(used)));
    return (with_keys ? 2 : 1) * room * head_dim * SizeOf(type);
  }
  const int64_t keys = with_keys ? page / kSoftmaxPiece * KeyPanelBytes(type, head_dim) : 0;
  return keys + page * ValueColumns(head_dim) * SizeOf(type);
}

int64_t KeyValuePages::Bytes(DType type, int64_t head_dim, int64_t begin, int64_t end, bool with_keys,
                             int64_t page) {
  const int64_t full = PageBytes(type, head_dim, page, with_keys, page), rest = end % page;
  return (end / page - begin / page) * full +
         (rest == 0 ? 0 : PageBytes(type, head_dim, rest, with_keys, page));
}

int64_t KeyValuePages::PackedBytes(DType type, int64_t head_dim) {
  return PageBytes(type, head_dim, kSmallPage, true, kSmallPage);
}

KeyValuePages::Page KeyValuePages::NewPage(int64_t used) const {
  return Page(Buffer::Lasting(PageBytes(type_, head_dim_, used, has_keys(), page_)));
}

char* KeyValuePages::Packed(int64_t position, const void* loose) const {
  if (position < packed_end()) return PageOf(position).data;
  return static_cast<char*>(const_cast<void*>(loose));
}

char* KeyValuePages::KeysOf(char* page, int64_t place) const {
  return page + place / kSoftmaxPiece * key_panel_bytes_;
}

char* KeyValuePages::ValuesOf(char* page, int64_t place, int64_t column) const {
  return KeysOf(page, page_) + (page_ * column + place * PanelWidth(column)) * SizeOf(type_);
}

const void* KeyValuePages::Keys(int64_t position, const void* loose) const {
  return KeysOf(Packed(position, loose), InPage(position));
}

const void* KeyValuePages::Values(int64_t position, int64_t column, const void* loose) const {
  return ValuesOf(Packed(position, loose), InPage(position), column);
}

const void* KeyValuePages::ValuesAhead(int64_t key_position) const {
  if (key_position >= packed_end()) return nullptr;
  return KeysOf(Packed(key_position, nullptr), page_ + InPage(key_position));
}

const void* KeyValuePages::KeysAhead(int64_t value_position, int64_t column) const {
  const int64_t position = value_position + kKeyBlock;
  if (position >= packed_end()) return nullptr;
  char* page = Packed(position, nullptr);
  return KeysOf(page, 0) + (ValuesOf(page, InPage(position), column) - ValuesOf(page, 0, 0));
}

void KeyValuePages::PrefetchKeys(int64_t position) const {
  if (position < packed_end()) Prefetch(Keys(position), key_panel_bytes_);
}

void KeyValuePages::PrefetchValues(int64_t position) const {
  if (position >= packed_end()) return;
  for (int64_t c = 0; c < value_columns_; c += kValuePanel) {
    Prefetch(Values(position, c), kSoftmaxPiece * PanelWidth(c) * SizeOf(type_));
  }
}

void KeyValuePages::Grow(int64_t n) {
  if (n == 0) return;
  const auto room = [&] { return begin_ + std::ssize(pages_) * page_; };
  if (InPage(end_) != 0) GrowLast(std::min(page_, end_ + n - (room() - page_)));
  while (room() < end_ + n) pages_.push_back(NewPage(std::min(page_, end_ + n - room())));
  end_ += n;
}

void KeyValuePages::GrowLast(int64_t used) {
  const bool shared = std::exchange(last_shared_, false);
  if (page_ != kSmallPage && !shared) return;  // no page of these is ever too small
  const int64_t held = InPage(end_);
  Page& last = pages_.back();
  if (static_cast<int64_t>(last.memory->size()) == PageBytes(type_, head_dim_, used, has_keys(), page_)) {
    if (shared) last = Page(Buffer(*last.memory));
    return;
  }
  const Page larger = NewPage(used);
  const Rows keys = LooseKeys(last, held), values = LooseValues(last, held);
  if (IsLoose(page_, used)) {
    std::memcpy(LooseKeys(larger, held).data, keys.data, has_keys() ? held * head_dim_ * SizeOf(type_) : 0);
    std::memcpy(LooseValues(larger, held).data, values.data, held * head_dim_ * SizeOf(type_));
  } else {
    Fill(larger.data, 0, keys, values);
  }
  last = larger;
}

Rows KeyValuePages::LooseKeys(const Page& page, int64_t count) const {
  return {type_, page.data, count, head_dim_, head_dim_};
}

Rows KeyValuePages::LooseValues(const Page& page, int64_t count) const {
  char* values = page.data + (has_keys() ? page.memory->size() / 2 : 0);
  return {type_, values, count, head_dim_, head_dim_};
}

void KeyValuePages::PackLoose(void* page) const {
  const int64_t held = InPage(end_);
  Fill(static_cast<char*>(page), 0, LooseKeys(pages_.back(), held), LooseValues(pages_.back(), held));
}

void KeyValuePages::Write(int64_t position, const Rows& keys, const Rows& values) {
  CHECK(values.dtype == type_ && (!has_keys() || (keys.dtype == type_ && keys.rows == values.rows)));
  for (int64_t row = 0, count; row < values.rows; row += count) {
    const int64_t place = InPage(position + row);
    count = std::min(kSoftmaxPiece - place % kSoftmaxPiece, values.rows - row);
    const Page& page = PageOf(position + row);
    const Rows k = keys.Slice(row, has_keys() ? count : 0), v = values.Slice(row, count);
    if (position + row < packed_end()) {
      Fill(page.data, place, k, v);
    } else {
      if (has_keys()) Convert(k, LooseKeys(page, place + count).Slice(place, count));
      Convert(v, LooseValues(page, place + count).Slice(place, count));
    }
  }
}

void KeyValuePages::Append(const Rows& keys, const Rows& values) {
  Grow(values.rows);
  Write(end_ - values.rows, keys, values);
}

void KeyValuePages::Fill(char* page, int64_t place, const Rows& keys, const Rows& values) const {
  const int64_t column = place % kSoftmaxPiece;
  if (column == 0 && values.rows < kSoftmaxPiece) Clear(page, place);
  if (has_keys()) PackColumns(keys, column, kSoftmaxPiece, KeysOf(page, place));
  for (int64_t c = 0; c < value_columns_; c += kValuePanel) {
    const Rows panel = values.Cols(c, std::min(kValuePanel, head_dim_ - c));
    PackRows(panel, column, PanelWidth(c), ValuesOf(page, place - column, c));
  }
}

void KeyValuePages::Clear(char* page, int64_t piece) const {
  std::memset(KeysOf(page, piece), 0, key_panel_bytes_);
  for (int64_t c = 0; c < value_columns_; c += kValuePanel) {
    std::memset(ValuesOf(page, piece, c), 0, kSoftmaxPiece * PanelWidth(c) * SizeOf(type_));
  }
}

void KeyValuePages::DropBefore(int64_t position) {
  const int64_t whole = std::max<int64_t>(0, (std::min(position, end_) - begin_) / page_);
  pages_.erase(pages_.begin(), pages_.begin() + whole);
  begin_ += whole * page_;
}

int64_t WindowBegin(int64_t window, int64_t tokens, int64_t page) {
  return RoundDown(std::max<int64_t>(0, tokens - window + 1), page);
}

int64_t WindowKeeps(int64_t window, int64_t tokens, int64_t page) {
  return std::min(tokens, page + RoundUp(std::max<int64_t>(0, window - 2), page));
}

void KeyValuePages::Archive(StateArchive& archive, int64_t begin, int64_t end) {
  if (archive.restoring()) {
    CHECK(end_ == 0 && begin % page_ == 0 && begin <= end);
    begin_ = end_ = begin;
  }
  for (int64_t first = begin; first < end && archive.status().ok(); first += page_) {
    const int64_t used = std::min(page_, end - first);
    if (archive.restoring()) pages_.push_back(NewPage(used));
    ArchivePage(archive, PageOf(first), used);
    if (archive.restoring()) end_ = std::min(first + page_, end);
  }
}

// Loose rows as they are; else whole pieces: what no row has filled is zeros.
void KeyValuePages::ArchivePage(StateArchive& archive, const Page& page, int64_t used) {
  if (archive.measuring()) return archive.Bytes(*page.memory, page.memory->size());
  if (IsLoose(page_, used)) {
    const int64_t bytes = used * head_dim_ * SizeOf(type_);
    if (has_keys()) archive.Bytes(LooseKeys(page, used).data, bytes);
    return archive.Bytes(LooseValues(page, used).data, bytes);
  }
  const int64_t pieces = RoundUp(used, kSoftmaxPiece);
  archive.Bytes(KeysOf(page.data, 0), pieces / kSoftmaxPiece * key_panel_bytes_);
  for (int64_t c = 0; c < value_columns_; c += kValuePanel) {
    archive.Bytes(ValuesOf(page.data, 0, c), pieces * PanelWidth(c) * SizeOf(type_));
  }
}

}  // namespace heed
