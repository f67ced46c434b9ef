// An encoder, a decoder, or both: a stack and a head, served through the Model contract.
#ifndef HEED_ENGINE_MODELS_TRANSFORMER_H_
#define HEED_ENGINE_MODELS_TRANSFORMER_H_

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/blocks/adaptive_softmax.h"
#include "engine/models/config.h"
#include "engine/models/kept_rows.h"
#include "engine/models/model.h"
#include "engine/models/stack.h"
#include "engine/models/workspace.h"

namespace heed {

// norm(activation(W x + b))
struct HeadLayer {
  PackedWeights weights;
  Activation activation = Activation::kNone;
  std::optional<Norm> norm{};
};

// What turns rows of the stack into answers: the stack's norm, then layers one after another.
struct OutputHead {
  Head kind = Head::kNone;
  Pooling pooling = Pooling::kNone;           // kClassification and kEmbedding
  int32_t pooling_token = -1;                 // of SeeksToken()
  bool norm_after_pooling = false;            // else the norm is each row's
  Activation reads = Activation::kNone;       // of what the first layer reads
  std::vector<HeadLayer> layers;              // none: the rows themselves are the answer, but with
  std::optional<AdaptiveSoftmax> clusters{};  // instead of layers
  float scale = 1;                            // of the answer
  float soft_cap = 0;  // c: the scaled answer becomes c tanh(answer / c); 0: there is none

  int64_t bytes() const;
  double multiply_adds() const;       // of an answer
  int64_t hidden() const;             // widest that one layer gives to the next; 0: there is one at most
  int64_t width(int64_t rows) const;  // of an answer, with rows so wide
  std::optional<Precision> reads_in() const;  // of the first product; none if there is none
};

// What one sequence of a Transformer remembers: a run of each attention that is remembered, the ids and rows
// that its stack keeps, and what its pooled head has seen. Encoders remember nothing. An encoder-decoder's
// runs of cross-attention hold the source.
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
  AttentionRun& run(int number) { return *runs_[number]; }  // Stack::Attend::run
  // What the stack keeps of the passes before, and what it takes of this one.
  std::span<const int32_t> ids_before() const;
  Matrix<const float> rows_before(int set) const;
  void KeepIds(std::span<const int32_t> ids);
  void KeepRows(int set, const Matrix<float>& rows);
  // One more normalised row of the stack for a pooled head; rows come in order. `sought`: whether its token
  // is one that the pooling looks for.
  void Pool(Pooling pooling, const float* row, bool sought);
  // The pooled vector of all rows so far.
  void Pooled(Pooling pooling, float* out) const;

 private:
  TransformerSequence(const TransformerSequence& other);

  const class Transformer* model_;
  int64_t source_tokens_ = 0;
  void ArchiveKept(StateArchive& archive);

  std::vector<std::unique_ptr<AttentionRun>> runs_;
  KeptRows ids_;
  std::vector<KeptRows> rows_;  // of each set
  std::vector<double> pooled_;  // a row, the largest of all, or their sum; empty if the head does not pool
  int64_t pooled_rows_ = 0;
  int64_t found_ = 0;  // 1: pooled_ is a row that the pooling looks for
};

class Transformer : public Model {
 public:
  Transformer(ModelInfo info, Stack stack, OutputHead head);
  std::unique_ptr<Sequence> Start() const override;
  std::unique_ptr<Pass> Begin(std::vector<Work>* batch) const override;
  int64_t StateBytes(int64_t tokens, int64_t source, int64_t labelled) const override;
  int64_t WorkspaceBytes(const PassSize& size) const override;
  double Cost(int64_t n, int64_t source, int64_t labelled) const override;
  int64_t Answers(int64_t n, int64_t columns, int64_t source) const override;

  const Stack& stack() const { return stack_; }
  bool reads_sources() const { return reads_sources_; }
  const OutputHead& head() const { return head_; }
  Workspaces& workspaces() const { return workspaces_; }

 private:
  Stack stack_;
  OutputHead head_;
  bool reads_sources_ = false;
  mutable Workspaces workspaces_;
};

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_TRANSFORMER_H_
