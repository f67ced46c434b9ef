// The keys and values of one head of one sequence, packed for the micro-kernel as they arrive, in pages of
// kGrid positions, or, where sequences are many and short, of 32. It reads them in panels of 32 columns, each
// in one piece of memory, which is what lets a decode step run at the memory's speed (panels of 64 reach two
// thirds of it):
//   K  [page / 32][head_dim][32]           transposed, a panel for each 32 positions
//   V  [value_columns / 32][page][32]      a panel for each 32 columns; the last may have 16
// in bf16 with pairs along the sum side by side.
//
// Of many short sequences each would hold a page that is nearly empty. So while no more than half of the last
// page of 32 is filled, its rows are loose: they lie as they came, keys and then values, in room for the next
// power of two of them. Who reads them has them packed first, in memory of its own.
#ifndef HEED_ENGINE_ATTENTION_KEY_VALUE_PAGES_H_
#define HEED_ENGINE_ATTENTION_KEY_VALUE_PAGES_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/base/archive.h"
#include "engine/base/memory.h"
#include "engine/tensor/tensor.h"

namespace heed {

// A step of the streaming softmax takes the keys from one multiple of this many positions to the next: the
// grid on which sums along a sequence are cut, whatever arrived when.
inline constexpr int64_t kKeyBlock = 2 * kGrid;

// Copies share all pages, and each that goes on takes a page of its own for the last one if it is not full:
// a copy costs no more than its list of pages, and one that only reads never more.
class KeyValuePages {
 public:
  static constexpr int64_t kPage = kGrid, kSmallPage = 32;
  static constexpr int64_t kValuePanel = 32;

  // f32 or bf16; the type of all rows appended. Without keys, only values are kept (Synthesizer). `page`: of
  // so many positions, kPage or kSmallPage.
  KeyValuePages(DType type, int64_t head_dim, bool with_keys = true, int64_t page = kPage);
  KeyValuePages(const KeyValuePages& other);
  KeyValuePages(KeyValuePages&&) = default;
  KeyValuePages& operator=(KeyValuePages&&) = default;

  // The positions held are [begin(), end()); begin() is a page's first.
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }

  // Makes room for the next n positions. They are held from now on, and read after they are written.
  void Grow(int64_t n);
  // The rows of positions that Grow() made room for, from `position` on, [n, head_dim] each; where no keys
  // are kept, the keys are not looked at. Positions in ascending order within a page; threads may write
  // different pages.
  void Write(int64_t position, const Rows& keys, const Rows& values);
  void Append(const Rows& keys, const Rows& values);  // both
  // Forgets the pages that lie wholly before a position.
  void DropBefore(int64_t position);

  DType type() const { return type_; }
  int64_t head_dim() const { return head_dim_; }
  int64_t page() const { return page_; }
  bool has_keys() const { return key_panel_bytes_ > 0; }
  // head_dim and zeros up to a multiple of 16, which is what the micro-kernel computes anyway.
  int64_t value_columns() const { return value_columns_; }

  // The rows from here to end() are loose; at most half a small page.
  int64_t packed_end() const { return IsLoose(page_, InPage(end_)) ? end_ - InPage(end_) : end_; }
  // Packs them into memory of PackedBytes(), of a reader, who hands it to what follows as `loose`.
  void PackLoose(void* page) const;
  static int64_t PackedBytes(DType type, int64_t head_dim);

  // The panel of the keys from `position` on, a multiple of kSoftmaxPiece. It has zeros beyond end().
  const void* Keys(int64_t position, const void* loose = nullptr) const;
  // From the value at `position` on, a multiple of kSoftmaxPiece, the columns from `column` on, a multiple of
  // kValuePanel. Zeros beyond end() to the next multiple of kSoftmaxPiece.
  const void* Values(int64_t position, int64_t column, const void* loose = nullptr) const;
  // The columns of the panel of values that begins at `column`.
  int64_t PanelWidth(int64_t column) const { return std::min(kValuePanel, value_columns_ - column); }

  // For who reads the keys of a block, its values, the next block's keys and so on, what lies at the same
  // place of the half to come: of keys, the values of their page; of values, the keys a kKeyBlock on (without
  // keys, the values), null if not held or loose.
  const void* ValuesAhead(int64_t key_position) const;
  const void* KeysAhead(int64_t value_position, int64_t column) const;
  // Hints that the keys, or the values, of a piece will be read soon: kSoftmaxPiece positions; nothing if not
  // held or loose.
  void PrefetchKeys(int64_t position) const;
  void PrefetchValues(int64_t position) const;

  // Measures the memory held, saves or restores what lies in [begin, end), which the caller knows: of an
  // object that holds them, or into an empty one. begin is a multiple of page().
  void Archive(StateArchive& archive, int64_t begin, int64_t end);

  // Closed form of what holds the positions [begin, end).
  static int64_t Bytes(DType type, int64_t head_dim, int64_t begin, int64_t end, bool with_keys = true,
                       int64_t page = kPage);

 private:
  struct Page {
    explicit Page(Buffer buffer)
        : memory(std::make_shared<Buffer>(std::move(buffer))), data(memory->as<char>()) {}
    std::shared_ptr<Buffer> memory;
    char* data;  // of the memory: a step that finds nothing in the caches misses once a page, not twice
  };
  static bool IsLoose(int64_t page, int64_t used) {
    return page == kSmallPage && used > 0 && used <= page / 2;
  }
  // Of a page that holds so many.
  static int64_t PageBytes(DType type, int64_t head_dim, int64_t used, bool with_keys, int64_t page);
  Page NewPage(int64_t used) const;
  // Where the page of a position lies, packed.
  char* Packed(int64_t position, const void* loose) const;
  char* KeysOf(char* page, int64_t place) const;
  char* ValuesOf(char* page, int64_t place, int64_t column) const;
  const Page& PageOf(int64_t position) const { return pages_[(position - begin_) >> page_bits_]; }
  int64_t InPage(int64_t position) const { return position & (page_ - 1); }
  // The first `count` loose rows of a page.
  Rows LooseKeys(const Page& page, int64_t count) const;
  Rows LooseValues(const Page& page, int64_t count) const;
  // Makes the last page this object's own, with room for so many.
  void GrowLast(int64_t used);
  // Rows into a packed page, at `place` of it, within one piece.
  void Fill(char* page, int64_t place, const Rows& keys, const Rows& values) const;
  void Clear(char* page, int64_t piece) const;
  void ArchivePage(StateArchive& archive, const Page& page, int64_t used);

  DType type_;
  int64_t head_dim_;
  int64_t page_;
  int page_bits_;
  int64_t value_columns_;
  int64_t key_panel_bytes_;
  int64_t begin_ = 0, end_ = 0;
  // Pages before the last, and a full last one, are never written again: copies share them.
  std::vector<Page> pages_;
  mutable bool last_shared_ = false;  // with a copy; then the last page is read, not written
};

// A row that sees the newest `window` keys, its own included: the first position that rows after `tokens`
// others still look at, cut to pages; and the most positions that are kept for them, in whole pages: those
// window - 1 lie in 1 + (window - 2 rounded up to pages) pages at most, as the newest page need hold no more
// than one of them.
int64_t WindowBegin(int64_t window, int64_t tokens, int64_t page);
int64_t WindowKeeps(int64_t window, int64_t tokens, int64_t page);

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_KEY_VALUE_PAGES_H_
