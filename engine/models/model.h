// A model as the service sees it: sequences that remember, and passes that extend many of them at once.
//
//   std::unique_ptr<Sequence> s = model->Start();
//   std::unique_ptr<Pass> pass = model->Begin(works);   // a batch: one Work for each sequence
//   while (pass->Advance(threads)) {}                   // a layer or less at a time; stop anywhere and
//   nothing is left behind
//
// An encoder-decoder's sequence is its target; the first Work of it brings the whole source too, which goes
// through the encoder's layers first, in the same pass. What cross-attention keeps of it belongs to the
// sequence.
//
// A batch is rows end to end: prompts, chunks of prompts and single decode steps mix freely, nothing is
// padded, and a sequence's results are the same bits whatever else is in the batch.
#ifndef HEED_ENGINE_MODELS_MODEL_H_
#define HEED_ENGINE_MODELS_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/attention/attention.h"
#include "engine/base/archive.h"
#include "engine/base/digest.h"
#include "engine/base/threads.h"
#include "engine/models/attention_weights.h"
#include "engine/models/global_input.h"
#include "engine/models/table_schema.h"
#include "engine/ops/gemm.h"

namespace heed {

// What one sequence remembers, in all layers. One thread at a time.
class Sequence {
 public:
  virtual ~Sequence() = default;
  // A fork: both go on independently. Cheap where what is remembered never changes again: full pages of keys
  // and values, and a source, are shared, not copied.
  virtual std::unique_ptr<Sequence> Clone() const = 0;
  // Measures, saves, restores. Bytes of another model, precision or format are refused.
  virtual void Archive(StateArchive& archive) = 0;
  int64_t tokens() const { return tokens_; }  // taken in so far
 protected:
  int64_t tokens_ = 0;
};

// What a row of a model's input is.
struct InputRow {
  enum class Kind { kToken, kVector, kPatch, kTableRow };
  Kind kind = Kind::kToken;
  int64_t ids = 1;      // a token, or the values of a table row's categorical columns
  int64_t numbers = 0;  // a vector, an image's patch, or the values of a table row's numerical columns
};

// Images that a model reads, as rows of patches: squares of patch_size pixels, in raster order, each the
// numbers of channel after channel, row after row.
struct ImageInput {
  int64_t channels = 0;           // 0: the model reads no images
  int64_t patch_size = 0;         // of both sides; a side of an image is a multiple of it
  int64_t height = 0, width = 0;  // that the model is made for
  bool fixed = false;             // it takes no other size
};

// An image that a decoder draws: its tokens are the levels of pixels, channel after channel, each row after
// row.
struct DrawnImage {
  int64_t height = 0, width = 0;  // 0: it draws none
  int64_t channels = 1;
  int32_t levels = 0;  // ids from here on are no pixels: one may stand in front and say what is to be drawn
  int32_t start = -1;  // what stands in front where nothing is said; -1: the first pixel, which is given

  int64_t pixels() const { return height * width * channels; }  // of all channels
  int64_t front() const { return start >= 0 ? 1 : 0; }          // tokens before the first pixel
};

// One sequence's share of a batch.
struct Work {
  Sequence* sequence = nullptr;  // no other Work of the batch names it
  // Its next rows, at least 1: ModelInfo::input.ids of each, row after row. Ids are within their limits.
  std::vector<int32_t> tokens;
  // Of each of these its type, below ModelInfo::type_vocab_size, which is above 0 then. Empty: all are 0.
  std::vector<int32_t> types;
  std::vector<float> numbers;  // their ModelInfo::input.numbers, row after row
  int64_t columns = 0;         // images: how many rows (patches) lie beside each other
  // Encoder-decoders: all of it with the first tokens, and empty ever after. With a global input
  // (ModelInfo::global_input): its tokens, at least 1.
  std::vector<int32_t> source;
  // Encoders that read labels (ModelInfo::max_global_tokens), with or without a decoder: of each row that the
  // encoder reads. Empty: none are given, and what the file says of rows holds. With a global input: of each
  // of `tokens`, 1 + the place in `source` of that which it belongs to, 0 if to none. Empty: none belongs to
  // any.
  std::vector<int32_t> labels;
  // More rows of this sequence will come in a later pass (a chunk of a prompt). Then tokens() + rows must be
  // a multiple of kGrid; only decoders of class kExact take it. A pooled head answers only with the last
  // rows.
  bool more = false;
  // Which of `tokens` an answer is wanted for, ascending: {n - 1} to go on generating, all of them to score.
  // A pooled head gives one answer, index 0, if this is not empty.
  std::vector<int32_t> wanted;
  // Called for each wanted row with what the head gives ([output_width] floats: logits, scores of labels, a
  // vector), in ascending order, from some engine thread, never two calls of one Work at a time. Must not
  // throw or block.
  std::function<void(int32_t row, std::span<const float> output)> read;

  // If somebody asks for them: the softmax's weights of `tokens` for all keys so far, an entry for each
  // attention of ModelInfo::attentions in their order, or for each of the choice. Complete when the pass is
  // done. No part of WorkspaceBytes(): WeighingBytes().
  std::vector<LayerWeights>* weights = nullptr;
  const WeightsChoice* choice = nullptr;  // of what is in ModelInfo::attentions; null: all. Outlives the pass

  int64_t rows(const InputRow& row) const { return std::ssize(source) + InputRows(row); }
  int64_t InputRows(const InputRow& row) const {
    return row.ids > 0 ? std::ssize(tokens) / row.ids : std::ssize(numbers) / row.numbers;
  }
};

// One batch's way through one model. Holds its own buffers; not thread-safe. The works and sequences must
// outlive it.
class Pass {
 public:
  virtual ~Pass() = default;
  // Goes on by one layer or, where that is long, a part of it. False when the pass is done and every wanted
  // row was read. After an exception the sequences of the batch are in an undefined state: drop them.
  virtual bool Advance(Threads& threads) = 0;
  // Nobody waits for works[i] any more: no more attention is computed for it, nothing is read. Its sequence
  // is undefined from here on. Between two Advance() only.
  virtual void Drop(int i) = 0;
};

enum class Head { kNone, kLanguageModel, kClassification, kTokenClassification, kEmbedding };
enum class Architecture { kEncoder, kDecoder, kEncoderDecoder };

// What a caller needs to know of a model; fixed at load.
struct ModelInfo {
  Architecture architecture = Architecture::kEncoder;
  Head head = Head::kNone;
  InputRow input;
  ImageInput image;
  GlobalInput global_input;
  DrawnImage drawn;                // if its tokens are no text
  std::vector<int64_t> id_limits;  // tables: of each of a row's ids, the number of values; else vocab_size
  TableSchema schema;              // tables: what the columns are called; empty if they have no names
  bool rows_meet = false;          // tables: what a row is answered with depends on the others'
  std::string attention;           // the types of its layers joined by '+': "full", "full+softmax"
  int64_t width = 0;
  int layers = 0;  // of encoder and decoder together
  int64_t vocab_size = 0;
  int64_t type_vocab_size = 0;    // types that a token of the input may have (segments of BERT); 0: none
  int64_t output_width = 0;       // floats in an answer: vocab_size, num_labels or width
  bool pooled = false;            // one answer for a whole input
  bool answers_tokens = true;     // else one for each token; false: for each of other rows, Model::Answers()
  int64_t max_tokens = 0;         // the longest sequence; 0 = no limit of its own
  int64_t max_source_tokens = 0;  // the longest source, or global input; 0 = no limit of its own
  // A sequence begins with a row that is no token, whatever its id: the answer of the row at place p is of
  // token p itself, from those before it.
  bool start_row = false;
  DecodeClass decode = DecodeClass::kNone;
  std::vector<AttentionInfo> attentions;  // in their order; of an encoder-decoder, the decoder's
  // Encoders, with or without a decoder: how many global tokens a request may name, which are rows of label 1
  // (RowLabel::kGlobal); 0: none.
  int64_t max_global_tokens = 0;
  bool data_dependent = false;      // as Attention and FeedForward say, of any layer
  std::vector<std::string> labels;  // id2label, "LABEL_0" ... where the file names none; classification heads
  bool multi_label = false;         // scores are sigmoids, not a softmax
  bool normalize = false;           // embeddings are meant to have length 1; a pass gives them as they are
  std::vector<int32_t> eos_token_ids;
  int32_t bos_token_id = -1, pad_token_id = -1, mask_token_id = -1;  // -1: none
  int32_t decoder_start_token_id = -1;  // encoder-decoders: the first token of every target; -1: not told
  int64_t parameters = 0;
  int64_t weight_bytes = 0;     // of products, as packed in memory
  int64_t embedding_bytes = 0;  // of the tables: as in the file, or sinusoids
  Precision precision = Precision::kF32;
  std::vector<FileDigest> files;  // that hold the weights; none if they were made in memory
  StateOrigin origin;             // of its sequences' states
  bool byte_tokens = false;       // config "tokenizer": "bytes": a token is a byte of UTF-8 text
};

// A pass's size, all works together.
struct PassSize {
  int64_t rows = 0;  // of tokens
  int64_t source_rows = 0;
  int64_t answers = 0;  // rows that are wanted
  int threads = 1;      // that it runs on
  int64_t works = 0;    // at least 1 row each; 0: not known
};

// Instead of a number of labelled rows: no labels are given.
inline constexpr int64_t kNoLabels = -1;

// Const and thread-safe: one object serves all threads and sequences.
class Model {
 public:
  virtual ~Model() = default;
  virtual std::unique_ptr<Sequence> Start() const = 0;
  virtual std::unique_ptr<Pass> Begin(std::vector<Work>* batch) const = 0;
  // Closed form: the most bytes that a sequence holds from its first to its `tokens`-th token, for an
  // encoder-decoder with a source of `source`. What admission reserves. `labelled`: how many rows have a
  // label that is not 0, where labels are given.
  virtual int64_t StateBytes(int64_t tokens, int64_t source = 0, int64_t labelled = kNoLabels) const = 0;
  // Closed form: the most bytes that a pass holds while it runs, beside its sequences' state. Some of it is
  // kept for the next pass.
  virtual int64_t WorkspaceBytes(const PassSize& size) const = 0;
  // Multiply-adds for a sequence of n rows from start to end, for an encoder-decoder with a source of
  // `source`.
  virtual double Cost(int64_t n, int64_t source = 0, int64_t labelled = kNoLabels) const = 0;
  // Answers that the head has for an input of n rows, `columns` of them beside each other if it is an image,
  // with a source of `source`: what Work::wanted may name.
  virtual int64_t Answers(int64_t n, int64_t /*columns*/, int64_t /*source*/ = 0) const {
    return info_.pooled ? 1 : n;
  }

  const ModelInfo& info() const { return info_; }

 protected:
  ModelInfo info_;
};

struct LoadOptions {
  Precision precision = Precision::kF32;  // falls back as Supported() says
  // Tensors beside the folder's own, in place of what its family would draw: golden cases bring them.
  const Weights* drawn = nullptr;
};

// Loads the folder's config.json and weights. INVALID_ARGUMENT or NOT_FOUND with the file, the field, the
// value and the limit for anything wrong in them; loading never crashes, whatever the files hold.
absl::StatusOr<std::unique_ptr<const Model>> LoadModel(const std::string& folder, const LoadOptions& options);

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_MODEL_H_
