// Copies of pages: what they share, and that sharing does not show. Small pages: that their rows lie loose at
// first shows in their size alone.

#include "engine/attention/key_value_pages.h"

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/attention/random_rows.h"

namespace heed {
namespace {

constexpr int64_t kHeadDim = 16;

KeyValuePages Filled(int64_t rows, int64_t page = KeyValuePages::kPage) {
  KeyValuePages pages(DType::kF32, kHeadDim, true, page);
  const OwnedRows keys = OwnedRows::Random(DType::kF32, rows, kHeadDim, 1);
  pages.Append(keys.rows(), keys.rows());
  return pages;
}

void AppendOne(KeyValuePages& pages, int seed) {
  const OwnedRows row = OwnedRows::Random(DType::kF32, 1, kHeadDim, seed);
  pages.Append(row.rows(), row.rows());
}

// The value at a position: its first column.
float ValueAt(const KeyValuePages& pages, int64_t position) {
  const int64_t piece = position / 32 * 32;
  std::vector<char> loose(KeyValuePages::PackedBytes(DType::kF32, kHeadDim));
  if (pages.packed_end() < pages.end()) pages.PackLoose(loose.data());
  return static_cast<const float*>(
      pages.Values(piece, 0, loose.data()))[(position - piece) * pages.PanelWidth(0)];
}

int64_t Measured(KeyValuePages& pages) {
  StateArchive archive = StateArchive::Measuring();
  pages.Archive(archive, pages.begin(), pages.end());
  return archive.measured();
}

// All that a reader sees of a piece.
std::string Piece(const KeyValuePages& pages, int64_t position) {
  std::vector<char> loose(KeyValuePages::PackedBytes(pages.type(), pages.head_dim()), 'x');
  if (pages.packed_end() < pages.end()) pages.PackLoose(loose.data());
  const int64_t words = pages.type() == DType::kBf16 ? (pages.head_dim() + 1) / 2 : pages.head_dim();
  std::string bytes;
  if (pages.has_keys())
    bytes.append(static_cast<const char*>(pages.Keys(position, loose.data())), 32 * 4 * words);
  for (int64_t c = 0; c < pages.value_columns(); c += KeyValuePages::kValuePanel) {
    bytes.append(static_cast<const char*>(pages.Values(position, c, loose.data())),
                 32 * pages.PanelWidth(c) * SizeOf(pages.type()));
  }
  return bytes;
}

void ExpectSamePieces(const KeyValuePages& a, const KeyValuePages& b) {
  ASSERT_EQ(a.end(), b.end());
  for (int64_t piece = 0; piece < a.end(); piece += 32)
    ASSERT_EQ(Piece(a, piece), Piece(b, piece)) << piece << " of " << a.end();
}

TEST(KeyValuePages, ACopyThatOnlyReadsSharesEveryPage) {
  const KeyValuePages pages = Filled(200);
  const KeyValuePages copy = pages, second = copy;
  for (const int64_t position : {0, 128, 192}) {
    EXPECT_EQ(pages.Keys(position), copy.Keys(position));
    EXPECT_EQ(pages.Keys(position), second.Keys(position));
  }
}

TEST(KeyValuePages, WhoGoesOnTakesALastPageOfItsOwnOnce) {
  KeyValuePages pages = Filled(200);
  KeyValuePages copy = pages;
  const void* shared = pages.Keys(128);
  AppendOne(copy, 2);
  const void* own = copy.Keys(128);
  EXPECT_NE(own, shared);
  EXPECT_EQ(copy.Keys(0), pages.Keys(0)) << "full pages stay shared";
  AppendOne(copy, 3);
  EXPECT_EQ(copy.Keys(128), own);
}

TEST(KeyValuePages, CopiesGoOnIndependentlyWhoeverIsFirst) {
  for (const bool copy_first : {true, false}) {
    for (const int64_t rows : {1, 3, 4, 15, 16, 17, 31, 128, 129, 255}) {
      const int64_t page = rows % 2 == 0 ? KeyValuePages::kPage : KeyValuePages::kSmallPage;
      KeyValuePages pages = Filled(rows, page), same = Filled(rows, page);
      KeyValuePages copy = pages;
      AppendOne(copy_first ? copy : pages, 5);
      AppendOne(copy_first ? pages : copy, 6);
      AppendOne(same, copy_first ? 6 : 5);
      EXPECT_EQ(ValueAt(pages, rows), ValueAt(same, rows)) << rows;
      EXPECT_NE(ValueAt(pages, rows), ValueAt(copy, rows)) << rows;
      for (int64_t i = 0; i < rows; ++i) {
        ASSERT_EQ(ValueAt(pages, i), ValueAt(same, i));
        ASSERT_EQ(ValueAt(copy, i), ValueAt(same, i));
      }
    }
  }
}

TEST(KeyValuePages, SmallOnesAreReadAsLargeOnesHoweverTheyGrew) {
  for (const DType type : {DType::kF32, DType::kBf16}) {
    for (const bool with_keys : {true, false}) {
      for (const int64_t step : {1, 3, 7, 16, 17, 40}) {
        const OwnedRows keys = OwnedRows::Random(type, 120, 19, 1),
                        values = OwnedRows::Random(type, 120, 19, 2);
        KeyValuePages small(type, 19, with_keys, KeyValuePages::kSmallPage), large(type, 19, with_keys);
        for (int64_t row = 0; row + step <= 120; row += step) {
          for (KeyValuePages* pages : {&small, &large})
            pages->Append(keys.rows().Slice(row, step), values.rows().Slice(row, step));
          ExpectSamePieces(small, large);
        }
      }
    }
  }
}

TEST(KeyValuePages, SmallOnesHaveRoomForAtMostTwiceTheirRows) {
  KeyValuePages pages(DType::kF32, kHeadDim, true, KeyValuePages::kSmallPage);
  for (int64_t rows = 1; rows < 100; ++rows) {
    AppendOne(pages, 1);
    EXPECT_LT(Measured(pages), 2 * rows * 2 * kHeadDim * SizeOf(DType::kF32)) << rows;
    EXPECT_EQ(Measured(pages),
              KeyValuePages::Bytes(DType::kF32, kHeadDim, 0, rows, true, KeyValuePages::kSmallPage));
  }
}

TEST(KeyValuePages, SmallOnesGoOnAfterTheyWereSaved) {
  for (int64_t rows = 1; rows < 70; ++rows) {
    KeyValuePages pages = Filled(rows, KeyValuePages::kSmallPage);
    std::string saved;
    StateArchive saving = StateArchive::Saving(&saved);
    pages.Archive(saving, 0, rows);
    KeyValuePages restored(DType::kF32, kHeadDim, true, KeyValuePages::kSmallPage);
    StateArchive restoring = StateArchive::Restoring(saved);
    restored.Archive(restoring, 0, rows);
    ASSERT_TRUE(restoring.Finish().ok());
    for (KeyValuePages* each : {&pages, &restored}) AppendOne(*each, 7);
    ExpectSamePieces(pages, restored);
  }
}

}  // namespace
}  // namespace heed
