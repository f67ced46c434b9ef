// "sparse_strided": the strided pattern of the Sparse Transformer (Child et al. 2019). Two sets of a token i:
//   local    { j : i - stride <= j <= i }, stride + 1 tokens
//   strided  { j <= i : (i - j) mod stride = 0 }
// Options: stride (about sqrt(n)); heads: "merged", all see both, each key once, or "split", the first half
//   (2 h < heads) sees the local set and the others the strided one; pattern: "both", or "local" or "strided"
//   alone in all heads (interleaved layers). Decoder only.
// State: for the strided set all keys and values, for the local one those of stride + 1 tokens. The strided
// set is read from tracks, one for each residue modulo stride, in pages of 32 whose last begins smaller: they
// have room for at most twice the tokens, and for no more than 15 stride beyond them. Decoding is exact; a
// step reads stride + n / stride keys. For what repeats with a period: images row by row, music.
//
// Merged heads attend in two passes: neighbours share the band that they see, rows of one residue their
// track. Of the track a row sees what lies before its band.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/attention/pattern_attention.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostTracks = 1 << 12;  // that a head keeps

BandPattern Local(int64_t stride) { return BandPattern({.left = stride, .right = 0}); }

// Set 0: the band; set 1: the tracks.
class MergedPattern : public Pattern {
 public:
  explicit MergedPattern(int64_t stride) : stride_(stride), band_(Local(stride)) {
    sets_.push_back({.period = stride, .end = stride, .apart = true, .pass = 1});
  }
  // The band has the newest two of the track.
  Range Sees(int set, int64_t position) const override {
    return set == 0 ? band_.Sees(0, position) : Range{0, position / stride_ - 1};
  }
  int64_t KeptFrom(int set, int64_t places) const override {
    return set == 0 ? band_.KeptFrom(0, places) : 0;
  }
  int64_t MostKept(int set, int64_t places) const override {
    return set == 0 ? band_.MostKept(0, places) : places;
  }
  double Pairs(int64_t rows, int64_t tokens) const override {
    return band_.Pairs(rows, tokens) + BeforeTheBand(tokens) - BeforeTheBand(tokens - rows);
  }
  std::vector<RowSection> Sections(int64_t rows, int64_t tokens) const override {
    const int64_t near = std::min(tokens, stride_ + 1), far = tokens / stride_;
    return {{.rows = {0, rows}, .keys = static_cast<double>(near), .pass = 0},
            {.rows = {0, rows}, .keys = static_cast<double>(far), .pass = 1}};
  }

 private:
  // Of the first tokens, the pairs with what lies before the band: a row has place - 1 of them.
  double BeforeTheBand(int64_t tokens) const {
    const auto places = static_cast<double>(tokens / stride_), rest = static_cast<double>(tokens % stride_);
    if (places < 1) return 0;
    return static_cast<double>(stride_) * (places - 1) * (places - 2) / 2 + rest * (places - 1);
  }

  int64_t stride_;
  BandPattern band_;
};

// With a stride of 1 the tracks are one, and all are seen.
std::shared_ptr<const Pattern> NewPattern(int64_t stride, bool local, bool strided) {
  if (!strided) return std::make_shared<BandPattern>(Local(stride));
  if (!local || stride == 1) return std::make_shared<BandPattern>(Band{.right = 0}, stride);
  return std::make_shared<MergedPattern>(stride);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewSparseStridedAttention(const AttentionSetting& setting,
                                                                     JsonFields& fields,
                                                                     const WeightScope& scope) {
  const int64_t stride = fields.RequiredInt("stride", 1, kMostSpan);
  const bool split = fields.Choice("heads", {"merged", "split"}) == "split";
  const std::string pattern = fields.Choice("pattern", {"both", "local", "strided"});
  if (!setting.causal || setting.cross)
    fields.Fail("the pattern looks back: this attention is for decoders only");
  if (stride > kMostTracks && pattern != "local")
    fields.Fail(Cat("stride: ", stride, " is above ", kMostTracks, ", the most tracks that a head keeps"));
  std::vector<std::shared_ptr<const Pattern>> patterns;
  for (int head = 0; head < setting.num_heads; ++head) {
    const bool first = 2 * head < setting.num_heads, both = pattern == "both";
    patterns.push_back(NewPattern(stride, both ? !split || first : pattern == "local",
                                  both ? !split || !first : pattern == "strided"));
  }
  return NewPatternAttention(setting, fields, scope, std::move(patterns));
}

}  // namespace heed
