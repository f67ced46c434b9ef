// "image_local_2d": local attention of the Image Transformer (Parmar et al. 2018) over pixels in the order in
// which they are generated: the image lies in query blocks that do not overlap, those at its right and bottom
// edges are cut off; blocks come in raster order, and so do the pixels of a block. A pixel sees, of what is
// not generated later than itself, its own block, `memory[0]` rows above it and `memory[1]` columns on either
// side.
// Options: query_block and memory, [rows, columns] ([8, 16] each in the published code); height and width of
//   the image, the model's own where the layer has none. Decoder only.
// State: keys and values from the first pixel on that a later one sees: query_block[0] + memory[0] rows of
//   the image at most, where memory[0] counts in whole query blocks. Decoding is exact.
// For images generated pixel by pixel: what is near in the image is seen, be it far in the text.
//
// The memory of a block is a few runs of that order, one for each row of blocks where the blocks divide it.
#include <algorithm>
#include <vector>

#include "engine/attention/pattern_attention.h"
#include "engine/base/round.h"
#include "engine/base/status.h"

namespace heed {
namespace {

class ImagePattern : public Pattern {
 public:
  // None is larger than the image.
  struct Options {
    ImageSize image;
    int64_t rows = 1, columns = 1;  // of a query block
    int64_t above = 0, aside = 0;   // rows and columns of memory around it
  };
  explicit ImagePattern(const Options& options) : o_(options) {}
  Range Sees(int, int64_t position) const override { return {0, position + 1}; }  // by sections
  int64_t KeptFrom(int set, int64_t places) const override;
  int64_t MostKept(int set, int64_t places) const override;
  double Pairs(int64_t rows, int64_t tokens) const override { return Until(tokens) - Until(tokens - rows); }
  std::vector<RowSection> Sections(int64_t rows, int64_t tokens) const override;

 private:
  // A query block, by its row and column among the blocks.
  struct Block {
    int64_t row = 0, column = 0;
  };
  int64_t pixels() const { return o_.image.height * o_.image.width; }
  int64_t across() const { return Quotient(o_.image.width, o_.columns); }  // blocks in a row of them
  int64_t last_row() const { return (o_.image.height - 1) / o_.rows; }
  int64_t Rows(int64_t row) const { return std::min(o_.rows, o_.image.height - row * o_.rows); }
  int64_t Columns(int64_t column) const { return std::min(o_.columns, o_.image.width - column * o_.columns); }
  int64_t Pixels(Block block) const { return Rows(block.row) * Columns(block.column); }
  // Rows of memory above a block, columns to its left, and its own columns with those to its right.
  int64_t Above(int64_t row) const { return std::min(row * o_.rows, o_.above); }
  int64_t Before(int64_t column) const { return std::min(column * o_.columns, o_.aside); }
  int64_t After(int64_t column) const {
    return std::min(o_.image.width - column * o_.columns, o_.columns + o_.aside);
  }

  // Places in the order of generation: of a block's first pixel, and of any.
  int64_t First(Block block) const {
    return block.row * o_.rows * o_.image.width + Rows(block.row) * block.column * o_.columns;
  }
  int64_t Place(int64_t row, int64_t column) const {
    const Block block{row / o_.rows, column / o_.columns};
    return First(block) + row % o_.rows * Columns(block.column) + column % o_.columns;
  }
  Block BlockAt(int64_t place) const;
  int64_t FirstSeen(Block block) const {
    return Place(block.row * o_.rows - Above(block.row), block.column * o_.columns - Before(block.column));
  }
  // The end of a block, and of those after it that have as many pixels and lie side by side with it.
  int64_t EndOfAlike(Block block) const;
  std::vector<Range> Runs(Block block) const;

  double PairsOfBlock(Block block, int64_t count) const;
  double PairsOfBlocks(double above, int64_t rows, int64_t blocks) const;
  double Until(int64_t count) const;

  Options o_;
};

// That of the place behind all is the last.
ImagePattern::Block ImagePattern::BlockAt(int64_t place) const {
  const int64_t row = std::min(place / (o_.rows * o_.image.width), last_row());
  const int64_t column = (place - First({row, 0})) / (Rows(row) * o_.columns);
  return {row, std::min(column, across() - 1)};
}

int64_t ImagePattern::EndOfAlike(Block block) const {
  const int64_t full_rows = o_.image.height / o_.rows, full = o_.image.width / o_.columns;
  if (block.column >= full) return First(block) + Pixels(block);
  if (full == across() && block.row < full_rows)
    return First({full_rows - 1, full - 1}) + o_.rows * o_.columns;
  return First({block.row, full - 1}) + Rows(block.row) * o_.columns;
}

// From above down, blocks from left to right; where only a part of a block's columns is seen, each of its
// rows is a run.
std::vector<Range> ImagePattern::Runs(Block block) const {
  std::vector<Range> runs;
  const auto add = [&](int64_t begin, int64_t end) {
    if (!runs.empty() && runs.back().end == begin) {
      runs.back().end = end;
    } else {
      runs.push_back({begin, end});
    }
  };
  // Of a row of blocks the image's columns [left, right), from one of its rows on.
  const auto add_blocks = [&](int64_t row, int64_t from, int64_t left, int64_t right) {
    for (int64_t column = left / o_.columns; column * o_.columns < right; ++column) {
      const int64_t first = First({row, column}), width = Columns(column), x = column * o_.columns;
      const int64_t begin = std::max(left - x, int64_t{0}), end = std::min(right - x, width);
      if (end - begin == width) {
        add(first + from * width, first + Rows(row) * width);
      } else {
        for (int64_t r = from; r < Rows(row); ++r) add(first + r * width + begin, first + r * width + end);
      }
    }
  };
  const int64_t x = block.column * o_.columns, y = block.row * o_.rows;
  const int64_t left = x - Before(block.column), top = y - Above(block.row);
  for (int64_t row = top / o_.rows; row < block.row; ++row)
    add_blocks(row, std::max(top - row * o_.rows, int64_t{0}), left, x + After(block.column));
  add_blocks(block.row, 0, left, x);
  add(First(block), First(block) + Pixels(block));
  return runs;
}

// A chunk may begin within a block.
std::vector<RowSection> ImagePattern::Sections(int64_t rows, int64_t tokens) const {
  const int64_t first = tokens - rows;
  const int64_t width = o_.image.width, above = o_.above * std::min(width, o_.columns + 2 * o_.aside),
                own = o_.rows * std::min(width, o_.columns + o_.aside);
  std::vector<RowSection> sections;
  for (int64_t place = first, end; place < tokens; place = end) {
    const Block block = BlockAt(place);
    const int64_t behind = First(block) + Pixels(block);
    const bool whole = place == First(block);
    end = std::min(tokens, whole ? EndOfAlike(block) : behind);
    const auto runs = [this, number = block.row * across() + block.column](int64_t b) {
      return Runs({(number + b) / across(), (number + b) % across()});
    };
    sections.push_back({.rows = {place - first, end - first},
                        .keys = static_cast<double>(std::min(tokens, above + own)),
                        .block = behind - place,
                        .runs = runs,
                        .causal = true});
  }
  return sections;
}

// Of what blocks of this row see, and of what the first block of the next row sees.
int64_t ImagePattern::KeptFrom(int, int64_t places) const {
  if (places >= pixels()) return pixels();
  const Block block = BlockAt(places);
  if (block.row == last_row()) return FirstSeen(block);
  return std::min(FirstSeen(block), FirstSeen({block.row + 1, 0}));
}

// The rows of blocks above, and in its own row a block and what is seen to its left; both in whole blocks.
int64_t ImagePattern::MostKept(int, int64_t places) const {
  constexpr int64_t kPage = KeyValuePages::kPage;
  const int64_t own = std::min(o_.image.width, o_.columns + RoundUp(o_.aside, o_.columns));
  const int64_t kept = RoundUp(o_.above, o_.rows) * o_.image.width + o_.rows * own;
  return std::min(places, RoundUp(kept - 1, kPage) + kPage);
}

// The sum of min(i * step, most) over i < n.
double SumOfLeast(int64_t n, int64_t step, int64_t most) {
  const auto below = static_cast<double>(std::min(n, Quotient(most, step)));
  return static_cast<double>(step) * below * (below - 1) / 2 +
         (static_cast<double>(n) - below) * static_cast<double>(most);
}

double PairsAmong(double rows) { return rows * (rows + 1) / 2; }

// Of the first pixels of a block.
double ImagePattern::PairsOfBlock(Block block, int64_t count) const {
  const int64_t before = Before(block.column);
  const auto seen =
      static_cast<double>(Above(block.row) * (before + After(block.column)) + Rows(block.row) * before);
  return static_cast<double>(count) * seen + PairsAmong(static_cast<double>(count));
}

// Of the first full blocks of a row of them, so many rows high, with so many rows of memory above.
double ImagePattern::PairsOfBlocks(double above, int64_t rows, int64_t blocks) const {
  const auto n = static_cast<double>(blocks), size = static_cast<double>(rows * o_.columns);
  const double before = SumOfLeast(blocks, o_.columns, o_.aside);
  // After(column) falls where the image ends.
  const int64_t room = o_.image.width - o_.columns - o_.aside;
  const double beyond = static_cast<double>(o_.columns) * n * (n - 1) / 2 -
                        (room > 0 ? SumOfLeast(blocks, o_.columns, room) : n * static_cast<double>(room));
  const double after = n * static_cast<double>(o_.columns + o_.aside) - beyond;
  return size * (above * (before + after) + static_cast<double>(rows) * before) + n * PairsAmong(size);
}

// Of the first pixels of the image: rows of blocks, which differ in what is above alone; blocks; pixels.
double ImagePattern::Until(int64_t count) const {
  const Block block = BlockAt(count);
  const int64_t full = o_.image.width / o_.columns, edge = o_.rows * (o_.image.width % o_.columns);
  const auto rows = static_cast<double>(block.row);
  const double none = PairsOfBlocks(0, o_.rows, full), one = PairsOfBlocks(1, o_.rows, full);
  const double above = SumOfLeast(block.row, o_.rows, o_.above);
  double pairs = rows * none + above * (one - none);
  if (edge > 0) {
    const int64_t before = Before(full);
    pairs += static_cast<double>(edge) * (above * static_cast<double>(before + After(full)) +
                                          rows * static_cast<double>(o_.rows * before)) +
             rows * PairsAmong(static_cast<double>(edge));
  }
  pairs += PairsOfBlocks(static_cast<double>(Above(block.row)), Rows(block.row), block.column);
  return pairs + PairsOfBlock(block, std::min(count - First(block), Pixels(block)));
}

std::vector<int64_t> ReadPair(JsonFields& fields, std::string_view name, int64_t least) {
  if (!fields.Has(name)) fields.Fail(Cat(name, " is missing"));
  std::vector<int64_t> pair = fields.Ints(name, 2, 2, least, kMostSpan);
  pair.resize(2, 1);
  return pair;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewImageLocal2dAttention(const AttentionSetting& setting,
                                                                    JsonFields& fields,
                                                                    const WeightScope& scope) {
  const std::vector<int64_t> block = ReadPair(fields, "query_block", 1),
                             memory = ReadPair(fields, "memory", 0);
  const ImageSize image = ReadImageSize(setting, fields);
  if (!setting.causal || setting.cross)
    fields.Fail("pixels come one after another: this attention is for decoders only");
  if (image.height > kMostSpan / image.width)
    fields.Fail(
        Cat("an image of ", image.height, " x ", image.width, " has more than ", kMostSpan, " pixels"));
  RETURN_IF_ERROR(fields.Finish());
  const ImagePattern::Options options{.image = image,
                                      .rows = std::min(block[0], image.height),
                                      .columns = std::min(block[1], image.width),
                                      .above = std::min(memory[0], image.height),
                                      .aside = std::min(memory[1], image.width)};
  return NewPatternAttention(setting, fields, scope, {std::make_shared<ImagePattern>(options)},
                             image.height * image.width);
}

}  // namespace heed
