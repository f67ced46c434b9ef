// Copies of pages: what they share, and that sharing does not show.

#include "engine/attention/key_value_pages.h"

#include <cstring>

#include "gtest/gtest.h"
#include "tests/engine/attention/random_rows.h"

namespace heed {
namespace {

constexpr int64_t kHeadDim = 16;

KeyValuePages Filled(int64_t rows) {
  KeyValuePages pages(DType::kF32, kHeadDim);
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
  return static_cast<const float*>(pages.Values(piece, 0))[(position - piece) * pages.PanelWidth(0)];
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
    for (const int64_t rows : {1, 31, 128, 129, 255}) {
      KeyValuePages pages = Filled(rows), same = Filled(rows);
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

}  // namespace
}  // namespace heed
