// Encoders with the layers of BERT and their names: what the families that share them have in common.
#ifndef HEED_ENGINE_FAMILIES_BERT_H_
#define HEED_ENGINE_FAMILIES_BERT_H_

#include <cstdint>
#include <string>

#include "engine/families/family.h"

namespace heed {

struct BertNames {
  std::string prefix;          // "bert."
  int64_t skipped = 0;         // rows of the table of positions, the first, that belong to none
  int64_t embedding_size = 0;  // if config.json does not say it; 0: hidden_size
};

// Keys of the shape, and the tensors of embeddings and layers. No head yet.
NativeModel ReadBertEncoder(Checkpoint& checkpoint, const BertNames& names);
// MaskedLM: cls.predictions.{transform.{dense (hidden_act), LayerNorm}, bias}, tied to the embedding.
void AddPredictions(NativeModel& model);
// The encoder with the head of BERT that `architectures` asks for; SequenceClassification reads the pooler,
// below `prefix`.
absl::StatusOr<NativeModel> WithBertHead(Checkpoint& checkpoint, const std::string& prefix,
                                         NativeModel model);
// The same of those without a pooler: SequenceClassification is classifier.{dense (hidden_act), out_proj}.
absl::StatusOr<NativeModel> WithUnpooledHead(Checkpoint& checkpoint, NativeModel model);
// The encoder with the head of RoBERTa that `architectures` asks for; its pooler, below `prefix`, is
// nobody's.
absl::StatusOr<NativeModel> WithRobertaHead(Checkpoint& checkpoint, const std::string& prefix,
                                            NativeModel model);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_BERT_H_
