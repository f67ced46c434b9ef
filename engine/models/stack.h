// What rows go through: sets of rows, and phases that they pass one after another. A phase is a program,
// which is row-wise, or an attention, in which rows of a set meet one another or those of another set.
// Between two attentions a set's rows have one program:
//   embed, open attention 0
//   close attention 0, its feed-forward, open attention 1
//   ...
//   close the last attention, its feed-forward
// An encoder-decoder is one stack of two sets: the source's rows, then the target's, some of whose attentions
// read the source's. Const and thread-safe once it is built.
#ifndef HEED_ENGINE_MODELS_STACK_H_
#define HEED_ENGINE_MODELS_STACK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/models/row_step.h"

namespace heed {

// Whose rows a set has, of each sequence of a batch.
enum class WorkInput { kTokens, kSource };

struct RowSet {
  WorkInput input = WorkInput::kTokens;
  int64_t width = 0;  // of the residual stream
  // A sequence remembers what its attentions keep. Else rows come whole, and what they keep lives for one
  // attention of one pass.
  bool remembered = false;

  // Widest of its attentions; made as they are added.
  int64_t products_width = 0;
  int64_t source_products_width = 0;  // of those of another set that read it; 0: there are none
  int64_t attended_width = 0;
};

class Stack {
 public:
  static constexpr int kItself = -1;

  struct Attend {
    int set = 0;
    int source = kItself;  // the set whose rows it reads
    int index = 0;         // among those of its set
    std::unique_ptr<AttentionSublayer> sublayer;

    const Attention& attention() const { return sublayer->attention(); }
    bool cross() const { return source != kItself; }
  };

  struct Phase {
    enum class Kind { kProgram, kTakeSource, kAttend };
    Kind kind = Kind::kProgram;
    int set = 0;
    int attend = 0;  // which attention, if it is no program

    // Of a program.
    std::vector<std::unique_ptr<RowStep>> steps{};
    double multiply_adds = 0;            // a row
    double apart_multiply_adds = 0;      // that a labelled row takes beside them
    int64_t block_rows = kMaxBlockRows;  // the most that any step takes at once
  };

  // Sets are read by attentions of later ones. Their numbers are 0, 1, ...; the head reads the last.
  int AddSet(WorkInput input, int64_t width, bool remembered);
  // Each goes on where the set's rows stand.
  void Add(int set, std::unique_ptr<RowStep> step);
  void AddAttention(int set, AttentionSublayer sublayer, int source = kItself);
  void SetNorm(Norm norm) { norm_ = std::move(norm); }

  const std::vector<RowSet>& sets() const { return sets_; }
  const std::vector<Phase>& phases() const { return phases_; }
  const std::vector<Attend>& attentions() const { return attentions_; }
  const std::optional<Norm>& norm() const { return norm_; }  // of the last set's rows that the head reads
  int answered() const { return static_cast<int>(sets_.size()) - 1; }  // the set that the head reads
  int64_t width() const { return sets_.back().width; }                 // of its rows

  int64_t block_rows() const { return block_rows_; }  // the most of all programs
  BlockWidths WidthsOf(int64_t block_rows) const;     // for blocks of so many rows
  int64_t weight_bytes() const;
  bool data_dependent() const;
  // Closed forms for a sequence of so many rows with a source of so many; `labelled` as Model has it, and of
  // the sets that nobody remembers. What the runs hold that a sequence remembers, and what one of them does
  // beside that while a pass is at it; and the most of those that nobody remembers, one after another.
  int64_t StateBytes(int64_t tokens, int64_t source) const;
  int64_t LargestStateBytes(int64_t tokens, int64_t source, int64_t labelled) const;
  // Closed form: the most scratch that a thread takes for any task.
  int64_t scratch_bytes() const { return scratch_bytes_; }
  // The head not counted.
  double multiply_adds(int64_t tokens, int64_t source, int64_t labelled) const;

 private:
  // Whether the rows' labels are given, and are this attention's affair.
  bool Reads(const Attend& attend, int64_t labelled) const;
  int64_t RowsOf(int set, int64_t tokens, int64_t source) const {
    return sets_[set].input == WorkInput::kSource ? source : tokens;
  }

  std::vector<RowSet> sets_;
  std::vector<Attend> attentions_;
  std::vector<Phase> phases_;
  std::optional<Norm> norm_;
  int64_t block_rows_ = kMaxBlockRows;
  int64_t scratch_bytes_ = GemmScratchBytes();
};

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_STACK_H_
