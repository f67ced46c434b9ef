// "axial": attention along one axis of an image or a grid of N axes (Ho et al. 2019), whose positions come in
// raster order, the last coordinate fastest: a position sees those that differ from it in this coordinate at
// most, in a decoder none later than itself.
//   along axis a:  step = product of the sizes after a,  { j : j = i mod step, j div (step size_a) = i div
//   (step size_a) }
// Options: axis: "row" or "column" of height x width; or, with `shape` (N sizes), 0 .. N - 1. height, width
// and shape
//   are the model's own where the layer has none.
// State: along the last axis the row at hand; along axis a the grid below the axes before it. Decoding is
// exact and a step reads one row or one column.
//
// A stride of the sequence is a track, so a column is read as fast as a row.
#include <algorithm>
#include <vector>

#include "engine/attention/pattern_attention.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostStep = 1 << 16;  // a head keeps so many tracks

// The sizes, and the number of the axis.
std::vector<int64_t> ReadGrid(const AttentionSetting& setting, JsonFields& fields, int64_t* axis) {
  std::vector<int64_t> shape = fields.Ints("shape", 1, 8, 1, kMostSpan);
  if (shape.empty() && !fields.Has("height") && setting.grid.size() > 2) shape = setting.grid;
  if (!shape.empty()) {
    *axis = fields.RequiredInt("axis", 0, std::ssize(shape) - 1);
    return shape;
  }
  *axis = fields.Choice("axis", {"row", "column"}) == "row" ? 1 : 0;
  const ImageSize size = ReadImageSize(setting, fields);
  return {size.height, size.width};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewAxialAttention(const AttentionSetting& setting,
                                                             JsonFields& fields, const WeightScope& scope) {
  int64_t axis = 0;
  const std::vector<int64_t> shape = ReadGrid(setting, fields, &axis);
  if (setting.cross) fields.Fail("an axis is of one sequence: this is no cross-attention");
  double positions = 1;
  BlockPattern::Blocks blocks{.block = shape[axis], .causal = setting.causal};
  for (int64_t a = 0; a < std::ssize(shape); ++a) {
    positions *= static_cast<double>(shape[a]);
    if (a > axis) blocks.step = std::min(kMostStep + 1, blocks.step * shape[a]);
  }
  if (positions > kMostSpan) fields.Fail(Cat("the grid has ", positions, " positions, above ", kMostSpan));
  if (blocks.step > kMostStep) {
    fields.Fail(Cat("axis: neighbours along it are more than ", kMostStep, " positions apart"));
  }
  RETURN_IF_ERROR(fields.Finish());
  return NewPatternAttention(setting, fields, scope, {std::make_shared<BlockPattern>(blocks)},
                             static_cast<int64_t>(positions));
}

}  // namespace heed
