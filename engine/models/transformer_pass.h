// One batch's way through a Transformer: all rows through the stack, then the head's answers.
#ifndef HEED_ENGINE_MODELS_TRANSFORMER_PASS_H_
#define HEED_ENGINE_MODELS_TRANSFORMER_PASS_H_

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

 public:
  // Rows that the head answers at a time: bounds the memory of a large vocabulary's logits.
  static constexpr int64_t kAnswerRows = 64;
  static constexpr int64_t kAnswerBytes = sizeof(Answer);  // of a wanted row, beside the workspace

 private:
  // What a pass consists of, in this order.
  enum class Stage { kRows, kPool, kAnswers, kDone };

  ShareSize SizeOf(const Work& work) const;
  const RowSet& AnsweredSet() const;
  const Norm* NormOfRows() const;
  void Reserve();
  void Add(Work& work);
  static void CheckMembership(const Work& work);
  bool RunStage(Threads& threads);
  bool Pool(Threads& threads);
  bool AnswerAll(Threads& threads);
  double AnswerCost() const;
  int64_t TakeAnswers(double* cost);
  void AnswerBlock(RowBlock& block, int64_t first);
  Rows HiddenRows(int64_t count, size_t i, int buffer, DType type);
  void RunLayers(RowBlock& block, Rows input, const Rows& outputs);
  void ScaleAnswers(RowBlock& block, const Rows& outputs) const;
  void ReadBlock(const Team& team, const Rows& outputs, int64_t first, int64_t count) const;
  TransformerSequence& SequenceOf(int work) const;

  const Transformer& model_;
  std::vector<Work>& works_;
  StackPass rows_;  // a share a work
  std::vector<Answer> answers_;
  Stage stage_ = Stage::kRows;
  Turn turn_;  // of the stage at hand
};

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_TRANSFORMER_PASS_H_
