// One batch's way through a Transformer: the sources through the encoder's stack, if there are any, then all
// rows through the stack with the head, and the answers.
#ifndef HEED_ENGINE_MODELS_TRANSFORMER_PASS_H_
#define HEED_ENGINE_MODELS_TRANSFORMER_PASS_H_

#include <optional>
#include <vector>

#include "engine/models/stack_pass.h"
#include "engine/models/transformer.h"

namespace heed {

class TransformerPass : public Pass {
 public:
  TransformerPass(const Transformer& model, std::vector<Work>* batch);
  bool Advance(Threads& threads) override;
  void Drop(int i) override;

 private:
  // A row that the head reads.
  struct Answer {
    int work;
    int32_t index;  // in Work::tokens, or 0
    int64_t row;    // in the batch; pooled: unused
  };

  void Add(Work& work);
  bool Encode(Threads& threads);
  void Pool(Threads& threads);
  void AnswerAll(Threads& threads);
  void AnswerBlock(RowBlock& block, int64_t first);
  void ReadBlock(const Team& team, const Rows& outputs, int64_t first, int64_t count) const;
  TransformerSequence& SequenceOf(int work) const;

  const Transformer& model_;
  std::vector<Work>& works_;
  std::optional<StackPass> sources_;  // if any work brings one
  bool encoded_ = false;
  StackPass rows_;  // a share a work
  std::vector<Answer> answers_;
};

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_TRANSFORMER_PASS_H_
