// What rows go through: sets of rows, and phases that they pass one after another. A phase is a program,
// which is row-wise, or an attention, in which rows of a set meet one another or those of another set.
// Between two attentions a set's rows have one program:
//   embed, open attention 0
//   close attention 0, its feed-forward, open attention 1
//   ...
//   close the last attention, its feed-forward
// or, where a layer is parallel, its feed-forward stands right behind "open attention".
// An encoder-decoder is one stack of two sets: the source's rows, then the target's, some of whose attentions
// read the source's. Where the number or the width of rows changes, what comes is another set, whose rows a
// move makes of those of the set before or of what the request brings. Const and thread-safe once it is
// built.
#ifndef HEED_ENGINE_MODELS_STACK_H_
#define HEED_ENGINE_MODELS_STACK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/models/row_move.h"
#include "engine/models/row_step.h"

namespace heed {

// What one sequence brings to a batch.
struct ShareSize {
  int64_t rows = 0;     // of its input
  int64_t source = 0;   // of its second input
  int64_t columns = 0;  // rows of the input beside each other, if it is an image; 0: it may be any
  int64_t first = 0;    // rows of its input that came before, in earlier passes
};

// Whose ids the rows of a set have, if they have any: those of a second input are a source's.
enum class WorkInput { kTokens, kSource, kNone };

// How many rows a set has of a sequence. Of one that comes in several passes, what it has of each begins
// where that of the passes before ends.
struct RowCount {
  std::function<int64_t(const ShareSize&)> exact;  // of an image of unknown columns, the most
  // Of so many sequences with so many rows of input and source in all, at most.
  std::function<int64_t(const ShareSize& sum, int64_t sequences)> most;
  int64_t always = 0;  // so many, whatever the sequence; 0: it depends

  static RowCount OfInput(int64_t front = 0);  // a row of each of the input's, and some before them
  static RowCount OfSource();
  static RowCount OfBoth();                   // a row of each of the input's and the source's
  static RowCount OfEachInput(int64_t rows);  // so many of each row of the input's
  static RowCount Fixed(int64_t rows);
};

struct RowSet {
  RowCount count = RowCount::OfInput();
  WorkInput input = WorkInput::kTokens;
  int64_t width = 0;  // of the residual stream, and of what lies behind it
  // Numbers behind the residual stream, made when rows are and read by layers beside it. No head reads them.
  int64_t beside = 0;
  // A sequence remembers what its attentions keep. Else rows come whole, and what they keep lives for one
  // attention of one pass.
  bool remembered = false;
  bool labelled = true;  // a request's labels are of its rows, if they have ids and nobody remembers it
  bool typed = false;    // a request's types are of its rows, which are tokens or have the type of one:
  // Of which of the input's, where they are none.
  std::function<int64_t(int64_t row)> typed_as{};
  int64_t front = 0;         // rows before those of the input, which the model brings
  int32_t id_before = -1;    // its ids are the input's one row later, behind this one; -1: as they are
  int64_t inputs_width = 0;  // numbers that a row begins with, beside the residual stream; 0: none
  // Rows that attend to one another alone: groups of so many, one after another, in which their positions are
  // counted; 0: all of a sequence.
  int64_t group = 0;
  static constexpr int64_t kGroupsAtOnce = 64;  // that attend in one go: bounds what they keep meanwhile
  // So many of its rows, the newest, a sequence keeps as a pass leaves them: moves of later passes read them.
  int64_t kept = 0;
  // Rows beside each other where they are an image's.
  std::function<int64_t(const ShareSize&)> columns{};

  bool takes_labels() const { return labelled && !remembered && input != WorkInput::kNone; }

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
    int layer = 0;         // of the model's
    std::string type;      // as its options name it
    int64_t group =
        0;  // as RowSet's, of this attention alone; then nobody remembers what it keeps; 0: the set's
    // The attention before, of the same set, whose keys and values it reads; itself: its own.
    int lender = kItself;
    bool lends = false;     // others read its keys and values
    bool releases = false;  // it is the last of those that read its lender's
    int run = kItself;      // among those whose runs a sequence remembers, if it is one
    std::unique_ptr<AttentionSublayer> sublayer;
    // What is done to the set's rows once the attention's products of them are made: it reads the residual
    // stream as they did, and changes it before the attention does. Only till the attention is added.
    std::unique_ptr<RowStep> beside{};

    const Attention& attention() const { return sublayer->attention(); }
    bool cross() const { return source != kItself; }
    // Whether it is the source that it has weights for, and not its own rows.
    bool weighs_source() const { return cross() && !attention().also_own_rows(); }
  };

  struct Phase {
    enum class Kind { kProgram, kMove, kTakeSource, kAttend };
    Kind kind = Kind::kProgram;
    int set = 0;
    int attend = 0;  // which attention, if it is one

    // Of a move.
    int from = kItself;  // the set whose rows it reads; none: what the request brings
    std::unique_ptr<RowMove> move{};

    // Of a program.
    std::vector<std::unique_ptr<RowStep>> steps{};
    double multiply_adds = 0;            // a row
    double apart_multiply_adds = 0;      // that a labelled row takes beside them
    int64_t block_rows = kMaxBlockRows;  // the most that any step takes at once
  };

  // Sets are numbered 0, 1, ... The head reads the last, if nothing else is said.
  int AddSet(RowSet set);
  void SetAnswered(int set) { answered_ = set; }
  // Each goes on where the set's rows stand: in the program before, if nothing but other sets' programs has
  // come since.
  void Add(int set, std::unique_ptr<RowStep> step);
  // Makes rows of a set: their residual stream or, where the set has inputs, those.
  void AddMove(int set, int from, std::unique_ptr<RowMove> move);
  // One attention, or several of which each reads what rows were before any of them.
  void AddAttention(Attend attend);
  void AddAttentions(std::vector<Attend> attends);
  // What is added between two marks can be passed again, with the same weights.
  int Mark();
  void Repeat(int begin, int end);
  // The widest that a product of the head reads, if it is wider than the rows.
  void SetHeadReads(int64_t width) { head_reads_ = width; }
  void SetNorm(Norm norm) { norm_ = std::move(norm); }
  std::optional<Norm> TakeNorm() { return std::exchange(norm_, std::nullopt); }
  // So many ids of the input, the newest, a sequence keeps for moves of later passes.
  void KeepIds(int64_t most) { kept_ids_ = most; }
  // Once all is added: leaves out the phases of sets that nobody reads any more, neither the head nor a later
  // phase nor a sequence that remembers them.
  void LeaveOutUnread();

  const std::vector<RowSet>& sets() const { return sets_; }
  int64_t passed() const { return std::ssize(order_); }  // phases, those that are passed again counted again
  const Phase& phase(int64_t i) const { return phases_[order_[i]]; }
  const std::vector<Attend>& attentions() const { return attentions_; }
  const std::optional<Norm>& norm() const { return norm_; }  // of the rows that the head reads
  int answered() const { return answered_; }                 // the set that the head reads
  int64_t width() const { return sets_[answered_].width - sets_[answered_].beside; }  // of its rows

  // Whether a sequence remembers what the attention keeps.
  bool remembers(const Attend& attend) const { return sets_[attend.set].remembered && attend.group == 0; }
  // Whether that is a run of its own.
  bool keeps_run(const Attend& attend) const { return remembers(attend) && attend.lender == kItself; }
  // The rows of a group, if they attend to one another alone; else 0.
  int64_t group(const Attend& attend) const {
    return attend.group > 0 ? attend.group : sets_[attend.set].group;
  }
  int64_t kept_ids() const { return kept_ids_; }
  // Whether global tokens that a request names are the attention's affair: its rows are these.
  bool reads_labels(const Attend& attend) const;
  // Whether somebody may ask for its weights: its rows are the tokens that are answered.
  bool gives_weights(const Attend& attend) const;

  int64_t block_rows() const { return block_rows_; }  // the most of all programs
  BlockWidths WidthsOf(int64_t block_rows) const;     // for blocks of so many rows
  int64_t weight_bytes() const;
  bool data_dependent() const;
  // Closed form of what is held for a sequence of such a size; `labelled` as Model has it, and of the sets
  // that nobody remembers.
  int64_t StateBytes(const ShareSize& size, int64_t labelled) const;
  // Closed form: the most scratch that a thread takes for any task.
  int64_t scratch_bytes() const { return scratch_bytes_; }
  // The head not counted.
  double multiply_adds(const ShareSize& size, int64_t labelled) const;

 private:
  Phase& NewPhase(Phase phase);
  Phase& ProgramOf(int set);  // that goes on
  void Open(int number);
  void Borrow(Attend& attend);
  // Whether the rows' labels are given, and are this attention's affair.
  bool Reads(const Attend& attend, int64_t labelled) const;
  // What a sequence remembers and keeps, and what one attention holds beside that while a pass is at it.
  int64_t RememberedBytes(const ShareSize& size) const;
  // The most that one holds whose memory lives for one pass: of those of a source, or of the others.
  int64_t LargestStateBytes(const ShareSize& size, int64_t labelled, bool of_source) const;

  std::vector<RowSet> sets_;
  int answered_ = 0;
  std::vector<Attend> attentions_;
  std::vector<Phase> phases_;
  std::vector<int> order_;  // of the phases
  size_t first_open_ = 0;   // no step is added to a phase before this one
  std::optional<Norm> norm_;
  int64_t head_reads_ = 0;
  int64_t kept_ids_ = 0;
  int64_t block_rows_ = kMaxBlockRows;
  int64_t scratch_bytes_ = GemmScratchBytes();
};

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_STACK_H_
