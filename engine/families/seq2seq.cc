#include "engine/families/seq2seq.h"

#include "engine/base/status.h"

namespace heed {

void AddLanguageHead(Checkpoint& checkpoint, bool tied, NativeModel& model) {
  JsonFields& fields = checkpoint.fields();
  const std::string name = "lm_head.weight";
  const bool stored = checkpoint.Has(name);
  tied = fields.Bool("tie_word_embeddings", tied);
  model.config["head"] = "lm";
  if (!tied && !stored)
    fields.Fail(Cat("tie_word_embeddings: false, and the file has no tensor \"", name, "\""));
  if (!tied || (checkpoint.version() >= 5 && stored)) {
    model.tensors->Add(name, name);
  } else {
    model.tensors->Ignore(name);  // the same again
  }
}

void AddSharedEmbedding(const Checkpoint& checkpoint, const std::string& prefix, const std::string& side,
                        TensorView& tensors) {
  std::string found = prefix + "shared.weight";
  for (const char* other : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}) {
    if (!checkpoint.Has(found) && checkpoint.Has(prefix + other)) found = prefix + other;
    tensors.Ignore(prefix + other);  // the same again
  }
  tensors.Add(side + "embed.tokens.weight", found);
}

}  // namespace heed
