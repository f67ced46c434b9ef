// One batch's way through a Transformer: a row program, then the attention of a step, until the last program
// and the head.
#ifndef HEED_ENGINE_MODELS_TRANSFORMER_PASS_H_
#define HEED_ENGINE_MODELS_TRANSFORMER_PASS_H_

#include <memory>
#include <vector>

#include "engine/models/transformer.h"

namespace heed {

class TransformerPass : public Pass {
 public:
  TransformerPass(const Transformer& model, std::vector<Work>* batch);
  ~TransformerPass() override;
  bool Advance(Threads& threads) override;
  void Drop(int i) override;

 private:
  // A sequence's rows among the batch's.
  struct Share {
    Work* work;
    TransformerSequence* sequence;
    int64_t row;  // of its first row in the batch
    int64_t count;
    bool dropped = false;
  };
  // A row that the head reads.
  struct Answer {
    int share;
    int32_t index;  // in Work::tokens, or 0
    int64_t row;    // in the batch; pooled: unused
  };

  void RunProgram(Threads& threads);
  double ProgramCost() const;
  void Program(RowBlock& block, int64_t first) const;
  void Attend(Threads& threads);
  void AttendOne(const Share& share, AttentionRun& run, const std::vector<Rows>& products,
                 const Rows& attended, int task, Scratch& scratch) const;
  void Pool(Threads& threads);
  void AnswerAll(Threads& threads);
  void AnswerBlock(RowBlock& block, int64_t first);
  void ReadBlock(const Team& team, const Rows& outputs, int64_t first, int64_t count) const;
  RowBlock Block(Team& team, int thread, int buffers, int64_t first, int64_t count) const;

  const Transformer& model_;
  const Precision precision_;
  std::vector<Share> shares_;
  std::vector<int> longest_first_;  // shares by the cost of their attention
  double score_count_ = 0;          // queries times keys, of all shares
  std::vector<int32_t> ids_;        // of all rows
  std::vector<int64_t> positions_;  // of all rows
  std::vector<Answer> answers_;
  std::unique_ptr<Workspace> workspace_;
  size_t step_ = 0;  // the next program's
};

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_TRANSFORMER_PASS_H_
