// The rows of a batch on their way through a stack, phase by phase. Of each set the rows of all sequences lie
// one after another.
#ifndef HEED_ENGINE_MODELS_STACK_PASS_H_
#define HEED_ENGINE_MODELS_STACK_PASS_H_

#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/models/attention_pass.h"
#include "engine/models/attention_weights.h"
#include "engine/models/transformer.h"
#include "engine/models/turn.h"

namespace heed {

// Multiply-adds below which sharing the work among threads costs more than it saves: the caller does it
// alone. Threads that are awake, between two programs that they share, share smaller work too.
inline constexpr double kAlone = 1 << 20, kAloneAwake = 1 << 14;

// What a number costs that is only read, summed or normalised, in the time of a product's multiply-adds.
inline constexpr double kRowWise = 64;

// Not thread-safe. First all shares with their rows, then Begin(), then Advance().
class StackPass {
 public:
  // A sequence's part in the batch; what it names must last as long as the pass.
  struct Share {
    TransformerSequence* sequence = nullptr;       // whose runs remember the rows of sets that are remembered
    std::vector<LayerWeights>* weights = nullptr;  // as Work's
    const WeightsChoice* choice = nullptr;
    ShareSize size{};
    std::span<const int32_t> ids{}, types{}, source{}, labels{};  // as Work's
    std::span<const float> numbers{};
    bool dropped = false;
  };
  // Its rows in one set.
  struct Part {
    int64_t first = 0;  // position of the first
    int64_t row = 0;    // of the first among the set's
    int64_t count = 0;
    bool labelled = false;
  };

  static int64_t RowBytes(const RowSet& set) {  // of a row, beside the workspace
    return sizeof(int64_t) + (set.input == WorkInput::kNone ? 0 : sizeof(int32_t)) +
           (set.typed ? sizeof(int32_t) : 0);
  }
  static constexpr int64_t kLabelBytes = sizeof(int32_t);  // of one where rows have labels

  StackPass(const Stack& stack, Precision precision, Workspaces& workspaces);
  ~StackPass();
  void Reserve(std::span<const ShareSize> sizes);  // of the shares that will be added

  void Add(const Share& share);
  // What the head will need of the workspace.
  void Begin(int64_t answers, int64_t output_width, int64_t hidden_width);
  // Goes on by one layer or, where that is long, the part of it that the turn has room for. False when the
  // last phase is done: x() is what the stack gives, before its norm.
  bool Advance(Threads& threads, Turn& turn);
  void Drop(int share);
  // After the last phase: sequences take what is kept of the rows.
  void KeepRows() const;

  // f for all rows of a set, in blocks by one thread each or, where rows are few, by a team of several: the
  // fewer the blocks, the fewer times all weights are read. False when there was no room for all blocks: call
  // again.
  bool ForBlocks(Threads& threads, Turn& turn, int set, double row_cost,
                 absl::FunctionRef<void(RowBlock& block, int64_t first)> f);

  const std::vector<Share>& shares() const { return shares_; }
  const Part& part(int share, int set) const { return parts_[share * std::ssize(sets_) + set]; }
  // Of the set that the head reads.
  const Part& answered(int share) const { return part(share, stack_.answered()); }
  int64_t rows(int set) const { return std::ssize(sets_[set].positions); }
  Matrix<float> x() const { return x(stack_.answered()).Cols(0, stack_.width()); }
  Workspace& workspace() { return *workspace_; }

 private:
  using Phase = Stack::Phase;
  using Attend = Stack::Attend;

  // The rows of one set.
  struct SetRows {
    std::vector<int64_t> positions;
    std::vector<int32_t> ids;     // if the set's rows have any; 0 of those in front
    std::vector<int32_t> types;   // the same of their types
    std::vector<int32_t> labels;  // once any has one; RowPlaces::kNoLabel of the others
    int64_t labelled = 0;         // rows that are apart by their label
  };

  // As ForBlocks, by all threads as one team, in blocks of at most so many rows, each no longer than a turn.
  bool ForTeamBlocks(Threads& threads, Turn& turn, int set, double row_cost, int64_t most,
                     absl::FunctionRef<void(RowBlock& block, int64_t first)> f);
  bool IsAlone(int set, double row_cost) const;
  const Phase& phase() const { return stack_.phase(phase_); }
  void AddRows(int set, const Share& share);
  bool RunMove(Threads& threads, Turn& turn);
  void Move(int share, int64_t first, int64_t count) const;
  double ProgramCost() const;
  bool RunProgram(Threads& threads, Turn& turn);
  void RunSteps(RowBlock& block, int64_t first) const;
  bool RunPhase(Threads& threads, Turn& turn);
  void BeginAttention(const Attend& attend, bool source);
  bool RunGroups(Threads& threads, Turn& turn, const Attend& attend);
  bool BeginGroups(const Attend& attend, Turn& turn);
  void AddGroup(int share, const Attend& attend, int64_t row, const std::vector<Rows>& products);
  AttentionRun& RunOf(int share, const Attend& attend);
  bool WantsWeights(const Share& share, const Attend& attend) const;
  void AskForWeights(int share, const Attend& attend, const AttentionRun& run, AttentionRows& rows) const;
  void EndAttention();
  AttentionRows RowsOf(int share, const Attend& attend, bool source) const;
  AttentionRows RowsOf(const Attend& attend, int64_t row, int64_t count) const;
  RowPlaces PlacesOf(int set, int64_t first, int64_t count) const;
  RowBlock Block(int set, Team& team, int thread, int buffers, int64_t first, int64_t count) const;
  Matrix<float> x(int set) const { return workspace_->sets[set].x.rows().As<float>(); }

  const Stack& stack_;
  const Precision precision_;
  Workspaces& workspaces_;
  std::vector<Share> shares_;
  std::vector<Part> parts_;  // [share][set]
  std::vector<SetRows> sets_;
  std::unique_ptr<Workspace> workspace_;
  int64_t phase_ = 0;
  bool alone_ = true;        // the last program was one thread's
  bool begun_ = false;       // the attention at hand
  AttentionPass attention_;  // at hand
  // What remembers nobody's rows: of each share, or of the groups that attend.
  std::vector<std::unique_ptr<AttentionRun>> fresh_;
  int64_t grouped_ = 0;  // rows of the set at hand whose groups have attended, or do
};

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_STACK_PASS_H_
