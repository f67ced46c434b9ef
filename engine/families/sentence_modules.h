// modules.json, which sentence-transformers (Reimers and Gurevych 2019) writes beside a checkpoint: what
// becomes of its rows until they are an embedding; and sentence_bert_config.json: how long a text may be.
#ifndef HEED_ENGINE_FAMILIES_SENTENCE_MODULES_H_
#define HEED_ENGINE_FAMILIES_SENTENCE_MODULES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/families/family.h"

namespace heed {

struct SentenceModules {
  struct Dense {
    std::string folder;  // of its weights, linear.{weight [out, in], bias}
    int64_t out = 0;
    Json hidden_act;  // native; null: none
    bool bias = true;
  };

  std::string pooling;  // native; empty: the folder has no modules.json
  std::vector<Dense> dense;
  bool normalize = false;
  int64_t max_seq_length = 0;  // tokens of a text, special ones included; 0: as many as the model reads

  std::vector<std::string> folders() const;  // that hold weights
  // Makes a base model an embedder. An error if it has a head already.
  absl::Status Apply(NativeModel& model) const;
};

// INVALID_ARGUMENT names the file, the field and what is served.
absl::StatusOr<SentenceModules> ReadSentenceModules(const std::string& folder);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_SENTENCE_MODULES_H_
