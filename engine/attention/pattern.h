// Who sees whom where positions alone decide it: what a key-value head keeps, and what a row sees of that.
//
// A head keeps keys and values in tracks: pages that hold some of the positions, side by side in their order.
// What is far apart in the text but seen together (a stride, a column) lies together in a track, and is read
// as fast as a window is. Rows of one residue modulo Pattern::row_period read the same tracks.
//
// Where a head's rows see both what their neighbours see and what those of their residue see, they attend in
// passes, each in tiles of its own, and what passes find is merged by the log-sum-exp of their scores.
#ifndef HEED_ENGINE_ATTENTION_PATTERN_H_
#define HEED_ENGINE_ATTENTION_PATTERN_H_

#include <functional>
#include <memory>
#include <vector>

#include "engine/attention/key_value_pages.h"
#include "engine/attention/softmax_core.h"

namespace heed {

// Which positions are kept: of every `period` those from `begin` up to `end`, below `limit`; or those listed.
struct TrackSet {
  int64_t period = 1, begin = 0, end = 1;
  int64_t limit = kUnlimited;
  std::vector<int64_t> listed;      // ascending; empty: as above
  bool apart = false;               // each residue modulo `period` in a track of its own
  int64_t last_place = kUnlimited;  // rotation and bias see a row no farther than here
  int64_t ahead = 0;  // places before the first position's: learned, taken in by a run of its own
  bool made = false;  // what it holds is made of the rows, and written by a run of its own
  int pass = 0;       // in which it is read

  // Tracks of residues are many and short.
  int64_t page() const { return apart ? KeyValuePages::kSmallPage : KeyValuePages::kPage; }
  int64_t tracks() const { return apart ? period : 1; }
  // Of a track: how many of the first `positions` it holds, what is ahead included. The place of a position
  // that it holds is how many it holds before.
  int64_t Places(int64_t track, int64_t positions) const;
  // The position that lies at a place of a track.
  int64_t Position(int64_t track, int64_t place) const;
  // The first run of positions that it holds from `position` on, if it is not apart; beyond all if none.
  Range Run(int64_t position) const;
  bool all() const { return listed.empty() && !apart && end - begin == period; }
};

// Neighbours among the rows at hand that cost alike, in one pass.
struct RowSection {
  Range rows;
  double keys = 0;  // that a row sees
  // 0: what a row sees Pattern::Sees says. Else the rows come in blocks of so many, the last may be shorter.
  // Those of one see the same, be it several runs of the places of set 0, ascending: by the block's number
  // here. Causal: of that, what comes after a row it does not see.
  int64_t block = 0;
  std::function<std::vector<Range>(int64_t block)> runs = nullptr;
  bool causal = false;
  int pass = 0;
};

// What the heads of a pattern keep and see. Const and thread-safe.
class Pattern {
 public:
  virtual ~Pattern() = default;
  const std::vector<TrackSet>& sets() const { return sets_; }
  int64_t constant_bytes() const { return constant_bytes_; }  // of what it has from the weights
  int passes() const;
  // The period of all sets of a pass that are apart, 1 if there are none.
  int64_t row_period(int pass) const;
  // The places that the row at a position sees, in the set's track or, where they are apart, in the track of
  // the row's own residue. A key that two sets hold is seen in one of them. What has not come yet may be in
  // it.
  virtual Range Sees(int set, int64_t position) const = 0;
  // Of a track that has so many places, the first that later rows may see; and the most that are held for
  // them, in pages, at any time till then.
  virtual int64_t KeptFrom(int set, int64_t places) const;
  virtual int64_t MostKept(int set, int64_t places) const;
  // How many keys the last `rows` of a sequence of `tokens` see, all rows together; a full square where no
  // row is causal.
  virtual double Pairs(int64_t rows, int64_t tokens) const = 0;
  // The last `rows` of a sequence of `tokens`, all of them in each pass. What it gives lives as long as the
  // pattern.
  virtual std::vector<RowSection> Sections(int64_t rows, int64_t tokens) const;

 protected:
  std::vector<TrackSet> sets_ = {{}};
  int64_t constant_bytes_ = 0;
};

// One for all key-value heads, or one for each.
using Patterns = std::vector<std::shared_ptr<const Pattern>>;

// Every key, or in a decoder those up to the row itself; in a window the newest `left + 1` and as many as
// `right` after it.
class BandPattern : public Pattern {
 public:
  explicit BandPattern(Band band, int64_t dilation = 1);
  Range Sees(int set, int64_t position) const override;
  int64_t KeptFrom(int set, int64_t places) const override;
  int64_t MostKept(int set, int64_t places) const override;
  double Pairs(int64_t rows, int64_t tokens) const override;

 protected:
  Band band_;  // of places
};

// Blocks of so many places that do not overlap: a row sees its own, in a decoder up to itself, and so many
// places before its block and after it. Places are positions, or, with a step, those of one residue.
class BlockPattern : public Pattern {
 public:
  struct Blocks {
    int64_t block = 1;
    int64_t before = 0;
    bool causal = false;
    int64_t step = 1;
    int64_t after = 0;  // places after its block; not if causal
  };
  explicit BlockPattern(const Blocks& blocks);
  Range Sees(int set, int64_t position) const override;
  int64_t KeptFrom(int set, int64_t places) const override;
  int64_t MostKept(int set, int64_t places) const override;
  double Pairs(int64_t rows, int64_t tokens) const override;

 private:
  double PairsOfTrack(int64_t places) const;
  double AllPairs(int64_t tokens) const;
  Blocks blocks_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_PATTERN_H_
