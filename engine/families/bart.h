// Encoder-decoders with the layers of BART and their names: what the families that share them have in common.
#ifndef HEED_ENGINE_FAMILIES_BART_H_
#define HEED_ENGINE_FAMILIES_BART_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/families/family.h"
#include "engine/tensor/tensor.h"

namespace heed {

// What such a family is, and what its configuration class has where config.json says nothing.
struct BartKind {
  std::string prefix = "model.";
  std::string_view architecture = "ForConditionalGeneration";  // how it ends
  bool norm_first = false;      // norms come before sublayers, and one after the last layer; else after them
  bool embedding_norm = false;  // one comes after the embedding
  int64_t skipped = 0;          // rows of the table of positions, the first, that belong to none
  // The table of positions where the file has none; null: it has one.
  Tensor (*positions)(int64_t rows, int64_t width) = nullptr;
  bool shared = true;  // one table of tokens for both sides
  bool reads = false;  // SequenceClassification and QuestionAnswering too

  int64_t vocab_size = 50265;
  int64_t max_positions = 1024;
  int64_t width = 1024;
  int64_t layers = 12, decoder_layers = 12;
  int64_t hidden = 4096;
  int64_t heads = 16;
  std::string_view activation = "gelu";
  bool scale_embedding = false;
  std::vector<std::pair<std::string_view, int64_t>> tokens{};  // ids
};

// Keys of the shape, the tensors of embeddings and layers, and the head: "lm" or, of kinds that read, one of
// theirs. Another task is an error.
absl::StatusOr<NativeModel> ReadBartKind(Checkpoint& checkpoint, const BartKind& kind);

// Rows of a table of positions that a file need not have: of each the sines, then the cosines of
// position / 10000^(c / d). Column c of `width` / 2; of Marian d = width / 2, of M2M-100, whose positions are
// counted from 2, one less.
Tensor MarianPositions(int64_t rows, int64_t width);
Tensor M2m100Positions(int64_t rows, int64_t width);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_BART_H_
