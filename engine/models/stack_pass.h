// The rows of a batch on their way through one stack: a row program, then the attention of a step, until the
// last program. Rows of all sequences lie one after another.
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

// Not thread-safe. First all Add(), then Begin(), then Advance().
class StackPass {
 public:
  // A sequence's rows among the batch's.
  struct Share {
    TransformerSequence* sequence = nullptr;  // whose runs remember the rows; null: nobody's, a whole input
    int64_t first = 0;                        // position of its first row
    int64_t row = 0;                          // of its first row in the batch
    int64_t count = 0;
    int source = -1;  // the share of the source pass that its cross-attention takes in; -1: none
    std::vector<LayerWeights>* weights = nullptr;  // as Work's
    const WeightsChoice* choice = nullptr;
    bool labelled = false;
    bool dropped = false;
  };

  static constexpr int64_t kRowBytes = sizeof(int32_t) + sizeof(int64_t);  // of a row, beside the workspace
  static constexpr int64_t kLabelBytes = sizeof(int32_t);                  // of one where rows have labels

  StackPass(const Stack& stack, Precision precision, Workspaces& workspaces);
  ~StackPass();
  void Reserve(int64_t rows);  // that will be added

  // The share's row will be the next one, and its count that of the ids. `labels`: one an id, or none.
  void Add(Share share, std::span<const int32_t> ids, std::span<const int32_t> labels = {});
  // `source`: the finished pass of the shares' sources, if any share has one; it outlives this one.
  // `answers` and `output_width`: what the head will need of the workspace.
  void Begin(StackPass* source, int64_t answers, int64_t output_width);
  // Goes on by one step or, where that is long, the part of it that the turn has room for. False when the
  // last program is done: x() is what the stack gives, before its norm.
  bool Advance(Threads& threads, Turn& turn);
  // The stack's norm, in place: x() is what cross-attention reads when this is true; false when there was no
  // room for all rows: call again.
  bool Normalize(Threads& threads, Turn& turn);
  void Drop(int share);

  // f for all rows, in blocks by one thread each or, where rows are few, by a team of several: the fewer the
  // blocks, the fewer times all weights are read. False when there was no room for all blocks: call again.
  bool ForBlocks(Threads& threads, Turn& turn, double row_cost,
                 absl::FunctionRef<void(RowBlock& block, int64_t first)> f);

  const std::vector<Share>& shares() const { return shares_; }
  int64_t rows() const { return static_cast<int64_t>(ids_.size()); }
  Matrix<float> x() const { return workspace_->x.rows().As<float>(); }
  Workspace& workspace() { return *workspace_; }

 private:
  // What a step consists of, in this order.
  enum class Stage { kProgram, kSources, kSourceAttention, kAttention };

  // The same, by all threads as one team, in blocks of at most so many rows, each no longer than a turn.
  bool ForTeamBlocks(Threads& threads, Turn& turn, double row_cost, int64_t most,
                     absl::FunctionRef<void(RowBlock& block, int64_t first)> f);
  double ProgramCost() const;
  bool IsAlone(double row_cost) const;
  void Program(RowBlock& block, int64_t first) const;
  bool RunStage(Threads& threads, Turn& turn);
  bool OpenSources(Threads& threads, Turn& turn);
  void BeginAttention(bool source);
  bool WantsWeights(const Share& share) const;
  void AskForWeights(const Share& share, const AttentionRun& run, AttentionRows& rows) const;
  void KeepChosenWeights() const;
  AttentionRows RowsOf(const Share& share, bool source) const;
  RowPlaces PlacesOf(int64_t first, int64_t count) const;
  RowBlock Block(Team& team, int thread, int buffers, int64_t first, int64_t count) const;
  const AttentionSublayer& sublayer() const { return stack_.steps[step_].attention; }

  const Stack& stack_;
  const Precision precision_;
  Workspaces& workspaces_;
  std::vector<Share> shares_;
  std::vector<int32_t> ids_;        // of all rows
  std::vector<int64_t> positions_;  // of all rows
  std::vector<int32_t> labels_;     // of all rows, once any has one; RowPlaces::kNoLabel of the others
  int64_t labelled_ = 0;            // rows that are apart by their label
  StackPass* source_ = nullptr;
  std::unique_ptr<Workspace> workspace_;
  size_t step_ = 0;  // the next program's
  Stage stage_ = Stage::kProgram;
  AttentionPass attention_;                           // at hand
  std::vector<std::unique_ptr<AttentionRun>> fresh_;  // by share: what remembers nobody's rows
};

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_STACK_PASS_H_
