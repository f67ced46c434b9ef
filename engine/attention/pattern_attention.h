// Softmax attention in which positions alone decide who sees whom: the classical one, windows, blocks,
// strides, axes. A variant says what a head keeps and what a row sees of it (Pattern); all else is here:
// taking rows in, attending, forgetting, saving, copies, and the cut of all that into tasks.
#ifndef HEED_ENGINE_ATTENTION_PATTERN_ATTENTION_H_
#define HEED_ENGINE_ATTENTION_PATTERN_ATTENTION_H_

#include <memory>
#include <optional>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/attention/distance_bias.h"
#include "engine/attention/key_value_pages.h"
#include "engine/attention/pattern.h"
#include "engine/attention/position_scale.h"
#include "engine/attention/softmax_core.h"
#include "engine/ops/rows.h"

namespace heed {

struct PatternOptions {
  int heads = 1;
  int key_value_heads = 1;  // query head h reads key-value head h / (heads / key_value_heads)
  int64_t head_dim = 0;
  double scale = 1;     // scores = scale * q.k
  double soft_cap = 0;  // not 0: they become cap tanh(score / cap), before any bias
  std::optional<Rotary> rotary;
  std::optional<HeadNorm> query_norm, key_norm;  // after rotation, which there is
  std::optional<PositionScale> position_scale;   // of scores, before the cap
  std::optional<DistanceBias> bias;
  Patterns patterns;
  // Keys and values that every row sees beside those of its sequence, of each key-value head; or none.
  std::vector<KeyValuePages> constant;
  // Of each head a score that counts in its softmax's sums and has no value; or none. Patterns of one pass.
  std::vector<float> sink_scores;
  // The products that give queries, keys and values; -1: there are none, and scores are the bias alone.
  int q = 0, k = 1, v = 2;
  // The product whose sigmoid results are multiplied by, number by number, or a head by one, its sigmoid or
  // its softplus; -1: none. Patterns of one pass.
  enum class Gating { kNumbers, kHeads, kHeadsBySoftplus };
  int gate = -1;
  Gating gating = Gating::kNumbers;
};

class PatternAttention : public Attention {
 public:
  PatternAttention(const AttentionSetting& setting, PatternOptions options, std::vector<Product> products,
                   int64_t max_tokens = 0);

  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override;
  double Cost(int64_t rows, int64_t tokens) const override;
  int64_t ScratchBytes() const override;
  // Multiply-adds of one query head's row with one key, the value included. What tasks are cut by.
  virtual double PairCost() const { return 2 * static_cast<double>(options_.head_dim); }

  // The rows of one task.
  struct Tile {
    int head = 0;      // a key-value head
    int64_t row = 0;   // its first among AttentionRows
    int64_t step = 1;  // from a row to the next one
    int64_t count = 0;
    int pass = 0;
    const Pattern* pattern = nullptr;  // that the head follows in this sequence; for Prepare()
  };
  // For variants that do more to the scores than a table can: changes what a tile's queries or sources are
  // before they attend, with memory that lives as long as the task (or is kept in `biases`).
  virtual void Prepare(const AttentionRows& rows, const Tile& tile, SoftmaxQueries& queries,
                       std::vector<KeySource>& sources, std::vector<std::unique_ptr<ScoreBias>>& biases,
                       Scratch& scratch) const;

  const PatternOptions& options() const { return options_; }
  const SoftmaxCore& core() const { return core_; }
  const Pattern& pattern(int head) const {
    return *options_.patterns[options_.patterns.size() == 1 ? 0 : head];
  }
  int group() const { return options_.heads / options_.key_value_heads; }
  bool forgets() const { return forgets_; }  // any head, any set
  int passes() const { return passes_; }     // of the head that has most

 protected:
  // What a run holds whose heads follow these.
  int64_t KeptBytes(const Patterns& patterns, int64_t tokens) const;

 private:
  int64_t PartsBytes(const Patterns& patterns, int64_t tokens) const;  // of few rows that see many keys
  PatternOptions options_;
  SoftmaxCore core_;
  bool forgets_ = false;
  int passes_ = 1;
};

// Tensors: {q,k,v}.weight and, each where present, .bias; k and v of as many rows as there are key-value
// heads.
absl::StatusOr<std::vector<Product>> LoadQueriesKeysValues(const AttentionSetting& setting,
                                                           const PatternOptions& options,
                                                           const WeightScope& scope);

// The heads of most variants: num_heads of hidden_size / num_heads numbers, scores by 1 / sqrt(head_dim).
PatternOptions PlainHeads(const AttentionSetting& setting, JsonFields& fields);

inline constexpr int64_t kMostSpan = int64_t{1} << 30;  // of a window, a block, a stride

// For variants that are a pattern and no more: softmax(Q K' / sqrt(head_dim)) V of plain heads, all options
// read. `max_tokens`: 0 for no limit of its own.
absl::StatusOr<std::unique_ptr<Attention>> NewPatternAttention(const AttentionSetting& setting,
                                                               JsonFields& fields, const WeightScope& scope,
                                                               Patterns patterns, int64_t max_tokens = 0);

// A variant that adds stages of its own, or keeps what it makes of the rows, derives from it.
class PatternRun : public AttentionRun {
 public:
  // How rows are taken in.
  struct Taking {
    int64_t cut = kTakenRows;  // rows of a task: cuts lie at multiples of it,
    int64_t ahead = 0;         // counted from so many rows before the sequence
    int stages = 1;            // each takes in its share of every cut
    double row_cost = 0;       // of one head, in multiply-adds, beyond what moving takes
  };
  explicit PatternRun(const PatternAttention& attention) : PatternRun(attention, Taking()) {}
  PatternRun(const PatternAttention& attention, const Taking& taking);
  PatternRun(const PatternRun& other);
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<PatternRun>(*this); }
  // Of the parts of long key ranges that few rows see, where a head's are so many.
  static int64_t PartsBytes(const SoftmaxCore& core, int64_t parts) {
    return parts * core.PartBytes(kFewRows);
  }
  void Archive(StateArchive& archive) override;
  int64_t tokens() const override { return tokens_; }

 protected:
  // Before the first rows: the heads follow these instead of the attention's patterns.
  void Follow(Patterns patterns);
  const Pattern& pattern(int head) const {
    return patterns_.empty() ? attention_->pattern(head) : *patterns_[patterns_.size() == 1 ? 0 : head];
  }
  // Writes a head's pages. Cuts are done by different threads, stages one after another.
  virtual void TakeCut(const AttentionRows& rows, int head, int64_t cut, int stage, Scratch& scratch);
  // The positions of a cut; some of the first and of the last are not those of rows at hand.
  Range TakenCut(int64_t cut) const;
  KeyValuePages& Track(int head, int set, int64_t track) { return tracks_[FirstTrack(head, set) + track]; }
  int64_t from() const { return from_; }  // tokens before the rows at hand
  // PatternAttention::Prepare, for runs that know more of who sees whom.
  virtual void Prepare(const AttentionRows& rows, const PatternAttention::Tile& tile, SoftmaxQueries& queries,
                       std::vector<KeySource>& sources, std::vector<std::unique_ptr<ScoreBias>>& biases,
                       Scratch& scratch) const {
    attention_->Prepare(rows, tile, queries, sources, biases, scratch);
  }

 private:
  // Rows, counted by heads, whose parts of long key ranges are tasks of their own.
  static constexpr int64_t kFewRows = 16;

  using Tile = PatternAttention::Tile;
  // kStep: all at once, for rows that are not worth several stages.
  enum class Stage { kStep, kTake, kAttend, kParts, kMerge, kForget };
  // How a section of one head's rows at hand is cut.
  struct Cut {
    int head = 0;
    RowSection section;
    int64_t first_tile = 0;  // among those of all heads, in its pass
    int64_t period = 1;      // rows of one residue are a group
    int64_t unit = 1;        // rows of one group that no tile goes beyond: all, a block, or some small ones
    int64_t tile_rows = 1;   // of one unit
    int64_t tiles = 1;       // of one group, at most
    double row_cost = 0;     // multiply-adds

    int64_t rows() const { return section.rows.end - section.rows.begin; }
    int64_t RowsOf(int64_t group) const { return (rows() - group + period - 1) / period; }
    int64_t tiles_of_unit() const { return (unit + tile_rows - 1) / tile_rows; }
  };
  struct Pass {
    std::vector<Cut> cuts;  // head by head
    int64_t tiles = 0;
    double row_cost = 0, tile_cost = 0;  // the most

    void Clear() {
      cuts.clear();
      tiles = 0;
      row_cost = tile_cost = 0;
    }
  };
  struct Planned {
    Stage stage;
    int pass = 0;
  };

  const PatternOptions& options() const { return attention_->options(); }
  void Clear();  // all pages
  int64_t FirstTrack(int head, int set) const {
    int64_t first = first_tracks_[head];
    for (int s = 0; s < set; ++s) first += pattern(head).sets()[s].tracks();
    return first;
  }
  template <typename F>
  void ForTracks(int head, int64_t rows, F f);
  void Grow(int64_t rows);
  void CutTiles(const AttentionRows& rows);
  Cut CutOf(int head, RowSection section) const;
  int64_t CountParts(const AttentionRows& rows) const;
  const KeyValuePages& Pages(int head, int set, int64_t position) const;
  void Add(Planned planned, int64_t tasks, double cost, std::vector<AttentionStage>& stages);
  void AddAttending(const AttentionRows& rows, std::vector<AttentionStage>& stages);
  void AddParts(const AttentionRows& rows, std::vector<AttentionStage>& stages);
  void Step(const AttentionRows& rows, int head, Scratch& scratch);
  void TakeSet(const AttentionRows& rows, int head, int set, int64_t cut, Scratch& scratch);
  void Write(KeyValuePages& pages, int64_t place, const AttentionRows& rows, const Tile& run,
             Scratch& scratch);
  const Cut& CutAt(int pass, int64_t task) const;
  static Tile TileAt(const Cut& cut, int64_t tile);
  void AttendTile(const AttentionRows& rows, const Cut& cut, const Tile& tile, Scratch& scratch);
  std::vector<KeySource> Sources(int head, int pass, int64_t position) const;
  std::vector<KeySource> SourcesOfRuns(int head, const std::vector<Range>& runs, bool causal,
                                       const ScoreBias& between) const;
  void AskForWeights(const AttentionRows& rows, const Tile& tile, SoftmaxQueries& queries,
                     std::vector<KeySource>& sources) const;
  void Attend(const AttentionRows& rows, const Tile& tile, std::vector<KeySource> sources, Stage stage,
              int64_t part, Scratch& scratch);
  void Forget(int head, int64_t rows);

  const PatternAttention* attention_;
  Taking taking_;
  Patterns patterns_;  // none: the attention's
  // By key-value head, set and track, in one piece: a step of many streams meets each of them anew, out of
  // cache.
  std::vector<KeyValuePages> tracks_;
  std::vector<int64_t> first_tracks_;  // of a key-value head
  int64_t tokens_ = 0;
  // Of the rows at hand.
  int64_t from_ = 0;    // tokens before
  int64_t passed_ = 0;  // behind which pages may be forgotten, when they have attended
  std::vector<Planned> stages_;
  int64_t taken_cuts_ = 0;
  std::vector<Pass> passes_;
  int64_t parts_ = 0;  // of a head's keys, if they are attended part by part
  int64_t part_bytes_ = 0;
  Buffer part_results_;  // [head][part]
  Buffer lse_;           // [head][row], of what passes have found; where there are several
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_PATTERN_ATTENTION_H_
