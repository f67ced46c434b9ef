// An encoder, a decoder, or both: stacks of layers and a head, served through the Model contract.
#ifndef HEED_ENGINE_MODELS_TRANSFORMER_H_
#define HEED_ENGINE_MODELS_TRANSFORMER_H_

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/models/config.h"
#include "engine/models/model.h"
#include "engine/models/stack.h"
#include "engine/models/workspace.h"

namespace heed {

// What turns rows of the stack into answers.
struct OutputHead {
  Head kind = Head::kNone;
  Pooling pooling = Pooling::kNone;      // kClassification and kEmbedding
  std::optional<PackedWeights> weights;  // absent: the rows themselves are the answer
};

// What one sequence of a Transformer remembers: a run a step, and what its pooled head has seen. Encoders
// remember nothing: their keys and values live for one layer of one pass. An encoder-decoder remembers in the
// decoder's steps; its cross-attention's runs hold the source.
class TransformerSequence : public Sequence {
 public:
  explicit TransformerSequence(const class Transformer& model);
  std::unique_ptr<Sequence> Clone() const override;
  void Archive(StateArchive& archive) override;

  // Where the next row stands, and that `count` rows were taken, with a source of `source` if any.
  int64_t next() const { return tokens_; }
  void Take(int64_t count, int64_t source) {
    tokens_ += count;
    source_tokens_ += source;
  }
  int64_t source_tokens() const { return source_tokens_; }
  AttentionRun& run(size_t step) { return *runs_[step]; }
  // One more normalised row of the stack for a pooled head; rows come in order.
  void Pool(Pooling pooling, const float* row);
  // The pooled vector of all rows so far.
  void Pooled(Pooling pooling, float* out) const;

 private:
  TransformerSequence(const TransformerSequence& other);

  const class Transformer* model_;
  int64_t source_tokens_ = 0;
  std::vector<std::unique_ptr<AttentionRun>> runs_;
  std::vector<double> pooled_;  // first row, last row, or the sum of all; empty if the head does not pool
  int64_t pooled_rows_ = 0;
};

class Transformer : public Model {
 public:
  // `encoder`: of an encoder-decoder alone, whose `stack` is the decoder.
  Transformer(ModelInfo info, std::optional<Stack> encoder, Stack stack, OutputHead head);
  std::unique_ptr<Sequence> Start() const override;
  std::unique_ptr<Pass> Begin(std::vector<Work>* batch) const override;
  int64_t StateBytes(int64_t tokens, int64_t source, int64_t labelled) const override;
  int64_t WorkspaceBytes(const PassSize& size) const override;
  double Cost(int64_t n, int64_t source, int64_t labelled) const override;

  const std::optional<Stack>& encoder() const { return encoder_; }
  const Stack& stack() const { return stack_; }
  const OutputHead& head() const { return head_; }
  Workspaces& encoder_workspaces() const { return encoder_workspaces_; }
  Workspaces& workspaces() const { return workspaces_; }

 private:
  std::optional<Stack> encoder_;
  Stack stack_;
  OutputHead head_;
  mutable Workspaces encoder_workspaces_, workspaces_;
};

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_TRANSFORMER_H_
