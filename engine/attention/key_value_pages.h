// The keys and values of one head of one sequence, packed for the micro-kernel as they arrive, in pages of kGrid
// positions: K transposed, [head_dim][kGrid], V [kGrid][value_pitch] (bf16: pairs along the sum, as the micro-kernel
// has them). A decode step reads each page once, from end to end.
#ifndef HEED_ENGINE_ATTENTION_KEY_VALUE_PAGES_H_
#define HEED_ENGINE_ATTENTION_KEY_VALUE_PAGES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/base/archive.h"
#include "engine/base/memory.h"
#include "engine/tensor/tensor.h"

namespace heed {

// A step of the streaming softmax takes the keys from one multiple of this many positions to the next: the grid on which
// sums along a sequence are cut, whatever arrived when.
inline constexpr int64_t kKeyBlock = 2 * kGrid;

// Copies share the full pages, which never change again; both go on independently.
class KeyValuePages {
 public:
  static constexpr int64_t kPage = kGrid;

  // f32 or bf16; the type of all rows appended.
  KeyValuePages(DType type, int64_t head_dim);
  KeyValuePages(const KeyValuePages& other);
  KeyValuePages(KeyValuePages&&) = default;
  KeyValuePages& operator=(KeyValuePages&&) = default;

  // The positions held are [begin(), end()); begin() is a page's first.
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }

  // The rows of the next positions, [n, head_dim] each.
  void Append(const Rows& keys, const Rows& values);
  // Forgets the pages that lie wholly before a position.
  void DropBefore(int64_t position);

  DType type() const { return type_; }
  int64_t head_dim() const { return head_dim_; }
  // Columns of V: head_dim and zeros up to a multiple of 16, which is what the micro-kernel computes anyway.
  int64_t value_pitch() const { return value_pitch_; }

  // From the key, or value, at `position` on to the end of its page; position a multiple of kSoftmaxPiece, held. K may
  // hold anything beyond end(); V has zeros there, up to the next multiple of kSoftmaxPiece.
  const void* Keys(int64_t position) const;
  const void* Values(int64_t position) const;

  // Measures the memory held, saves or restores what lies in [begin, end), which the caller knows: of an object that
  // holds them, or into an empty one. begin is a multiple of kPage.
  void Archive(StateArchive& archive, int64_t begin, int64_t end);

  // Closed form of what holds the positions [begin, end).
  static int64_t Bytes(DType type, int64_t head_dim, int64_t begin, int64_t end);

 private:
  using Page = std::shared_ptr<Buffer>;
  char* KeysOf(const Page& page) const { return page->as<char>(); }
  char* ValuesOf(const Page& page) const { return page->as<char>() + key_bytes_; }
  const Page& PageOf(int64_t position) const { return pages_[(position - begin_) / kPage]; }
  // Rows into the last page, at `place` of it; they fit.
  void Fill(const Rows& keys, const Rows& values, int64_t place);
  // Zeros for the values from `place` to the end of its piece; a pair of bf16 rows is whole already.
  void ClearBehind(const Page& page, int64_t place);
  int64_t PackedValueBytes(int64_t rows) const;
  void ArchivePage(StateArchive& archive, const Page& page, int64_t used);

  DType type_;
  int64_t head_dim_;
  int64_t value_pitch_;
  int64_t key_rows_;   // rows of K, each kPage words of 4 bytes: numbers, or pairs of bf16
  int64_t key_bytes_;  // of K in a page
  int64_t begin_ = 0, end_ = 0;
  // Pages before the last, and a full last one, are never written again: copies share them.
  std::vector<Page> pages_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_KEY_VALUE_PAGES_H_
