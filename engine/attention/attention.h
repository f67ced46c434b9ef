// The contract of every attention variant.
//
// Attention is what all sequences share: weights and options, const after loading. AttentionRun is what one
// sequence remembers in one layer. It takes the next rows into memory and attends from them: a fresh memory
// and all rows at once is an encoder, one row is a decode step, rows of another sequence are cross-attention.
//
// What rows give to do is cut in stages, and a stage in tasks that threads share: taking rows in is one
// thing, attending from a range of them another. A task is small (kTaskCost), so that a lone sequence keeps
// all threads at work, and others wait for a task, not for a document. Cuts lie at fixed places of the
// sequence: results are the same bits on any number of threads.
//
// All that is row-wise (projections) is not done here: a variant names its products, the layer computes them
// for all rows of the batch at once, and a run gets their results. It gets the layer's input too; rows that
// it keeps or makes of inputs its tasks norm and multiply as the layer does.
#ifndef HEED_ENGINE_ATTENTION_ATTENTION_H_
#define HEED_ENGINE_ATTENTION_ATTENTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/archive.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/ops/gemm.h"
#include "engine/tensor/tensor.h"
#include "engine/weights/weights.h"

namespace heed {

// Chunks of a sequence end at multiples of this many of its own positions, and so does every block of keys: a
// result never depends on where company made a chunk end.
inline constexpr int64_t kGrid = 128;

// Multiply-adds that a task has at most, or little more: 128 rows of a head of 64 numbers that read 65,536
// keys. What costs more is cut into more tasks, or more stages.
inline constexpr double kTaskCost = 1 << 30;
// What a number costs that is only moved, in the time of a product's multiply-adds.
inline constexpr double kMoved = 8;
// Rows that one task takes in: whole pages of keys and values.
inline constexpr int64_t kTakenRows = 8 * kGrid;

// Whether the step of token t gives row t of the whole sequence's pass.
enum class DecodeClass {
  kExact,
  // A decoder whose prompt must come whole: which of its tokens meet depends on later ones. The first rows
  // that a run gets are the prompt; later ones are steps, however many come at once.
  kApproximate,
  kNone,  // encoder only
};
std::string_view Name(DecodeClass decode);  // "exact", "approximate", "none"

struct ImageSize {
  int64_t height = 1, width = 1;
};

// Rows that are an image's patches in raster order, and come with their columns (AttentionRows::columns).
struct ImageRows {
  ImageSize size;      // of the images that the model is made for, in patches
  bool fixed = false;  // it takes no others
};

// Rows that stand for several places each, one after another: the first `apart` rows for none, each other one
// `step` places after the one before; those of a source, `source_step`, which divides it.
struct RowSpacing {
  int64_t apart = 0, step = 1, source_step = 1;
};

// What a variant may know of the model it stands in.
struct AttentionSetting {
  int64_t width = 0;    // hidden_size
  int num_heads = 0;    // num_attention_heads, or the layer's own num_heads
  bool causal = false;  // in a decoder
  bool cross = false;   // keys and values are of other rows: another sequence's, or another set's
  Precision precision = Precision::kF32;
  std::string where;            // begins error messages: "config.json: layers[3].attention"
  std::vector<int64_t> grid{};  // the model's height and width, or shape, if its positions are a grid
  int64_t source_width = 0;     // cross: of the rows that are read; 0: width
  std::optional<ImageRows> image{};
  // Rows that the model brings, before those of the input: a sequence begins with them.
  int64_t front = 0;
  // Of the model's norms: added inside their roots, and to their weights when those are loaded.
  float norm_eps = 1e-5f, norm_offset = 0;
  // Of rows that were pooled: then a source is the same sequence, pooled less. None: a row is a place.
  std::optional<RowSpacing> spacing{};
  // Keys and values are those of an attention before it, of the same rows: it has no products of them, and
  // its rows attend by the run of the other.
  bool keys_lent = false;
};

// What a request may say of each row beside its token, as an integer: the row's label. 0 is nothing special.
// A request labels all rows of a sequence that comes whole, or none; then what the file says of them holds.
enum class RowLabel {
  kNone,
  kGlobal,  // 1: a global token, which sees all and which all see
  kMember,  // 1 + the row of the other set, a source, to which the row belongs
};

// Which labels an attention reads.
struct RowLabels {
  RowLabel kind = RowLabel::kNone;
  int64_t most = 0;  // rows whose label is not 0
};

// What a product is made with instead in the rows whose label is not 0, or, where the request gives no
// labels, in the rows at a few positions.
struct RowsApart {
  std::vector<int64_t> positions;  // ascending
  Tensor weight, bias;             // of the product's shapes; no weight: all rows are alike
};

// A row-wise product of the layer's (normalised) input, y = x W' + b, computed by the layer for all rows.
struct Product {
  std::string name;
  Tensor weight;           // [out, in]
  Tensor bias;             // [out] or empty
  bool of_source = false;  // of the source's rows (keys and values of cross-attention), not of the input's
  // What it gives decides whom a row meets: it is not rounded to int8. Not of the source's rows, none apart.
  bool chooses = false;
  RowsApart apart{};  // not of the source's rows
  // Of the source's rows: they make it themselves, as the product of this number of their own attention,
  // which has these weights too. None: it is made of them.
  std::optional<int> lent{};
  // Of the finished results of this product, not of the input: of one that is of the input's rows, or of one
  // before it that is of results itself. It has no rows apart and does not choose.
  std::optional<int> of{};
  // With `of`: what is read, and what comes of it, are so many groups of columns side by side, and a group's
  // is made of that group alone: weight [groups * a group's out, a group's in].
  int64_t groups = 1;
  // What becomes of the results before anybody reads them, row by row (a norm, say); none: nothing. Not of
  // products that choose. Const and thread-safe.
  std::function<void(const Rows& results)> finish{};
};

// What a layer makes of its input, for rows that are not at hand: a run has kept them, or made them of inputs
// (a compressed memory). They get the bits that they would have at hand. They have no position, so that
// RowsApart is not asked. Const and thread-safe.
class LayerInput {
 public:
  virtual ~LayerInput() = default;
  // What products read of such rows, in the activation type: their norm if the layer's comes first, else they
  // themselves. Then GemmOfActivations.
  virtual void Normalize(Matrix<const float> input, const Rows& normed) const = 0;
  // The products of the input, side by side in the order of Attention::products.
  virtual const PackedWeights& products() const = 0;
};

// The next rows of one sequence.
struct AttentionRows {
  int64_t first = 0;         // position of the first row in its sequence
  int64_t count = 0;         // rows that attend; 0 when only a source is taken in, as models do it
  int64_t source_count = 0;  // rows that become keys and values: == count in self-attention
  // Results of the products in the order of Attention::products, each [count or source_count, its width];
  // activation type.
  const Rows* products = nullptr;
  // [count, hidden_size]: the layer's input before its norm, for those that read it (Attention::reads_input).
  // Nothing is copied: it is the residual stream.
  Matrix<const float> input;
  const LayerInput* layer = nullptr;  // what is made of such rows
  Rows out;             // [count, Attention::out_width()], activation type: before the output projection
  int64_t columns = 0;  // rows beside each other where they are an image that is as large as it likes; else 0
  const int32_t* labels = nullptr;  // [count], of the kind that Attention::labels() reads; or none are given
  const int32_t* source_labels = nullptr;  // the same of all rows of the source, where those are labelled
  const int32_t* types = nullptr;          // [count], as a request types its tokens; or all are 0
  const int32_t* source_types = nullptr;   // the same of all rows that are keys
  // Where the weights of the rows' softmax go, if somebody asks for them: [Attention::weighing_heads(),
  // count, weight_keys] floats, keys at their positions, 0 where a row does not see a key. Tasks then take up
  // to twice their cost.
  float* weights = nullptr;
  int64_t weight_keys = 0;  // at least as many as are taken in by then
  // Attentions after this one read what it takes in: nothing is forgotten yet.
  bool held = false;
  // Of the last of those: so many rows, the newest, were held; what no later row sees is forgotten now.
  int64_t released = 0;

  std::span<float> Weights(int head, int64_t row) const {
    return {weights + (head * count + row) * weight_keys, static_cast<size_t>(weight_keys)};
  }
};

// Work that may be shared among threads: tasks that run at the same time and in any order.
struct AttentionStage {
  int64_t tasks = 0;
  double cost = 0;  // multiply-adds of one of them, the costliest
};

// What one sequence remembers in one layer.
class AttentionRun {
 public:
  virtual ~AttentionRun() = default;
  // Makes room for the rows, and says what there is to do with them: stages, one after another. What tasks
  // hand on to later stages the run keeps, as part of its state or, till the last of them, beside it
  // (Attention::PassBytes). Throws only bad_alloc.
  virtual std::vector<AttentionStage> Begin(const AttentionRows& rows) = 0;
  // Does one task, once, after all of the stages before. Tasks of a stage share nothing that changes. When
  // all are done the rows are taken in and `out` is written. Throws only bad_alloc.
  virtual void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) = 0;
  virtual std::unique_ptr<AttentionRun> Clone() const = 0;
  // Measures, saves or restores all that it remembers; restores into a fresh run of the same Attention. Bytes
  // from outside: whoever restores a sequence checks that all its runs remember as many tokens() as it has
  // taken in.
  virtual void Archive(StateArchive& archive) = 0;
  // Rows taken in as keys and values so far: the source's in cross-attention.
  virtual int64_t tokens() const = 0;
};

// What all sequences share. Const and thread-safe after loading.
class Attention {
 public:
  virtual ~Attention() = default;
  virtual std::unique_ptr<AttentionRun> Start() const = 0;
  // Closed form: the most bytes of memory that a run holds after `tokens` tokens (in cross-attention, a
  // source of so many), however they came. At least what Archive() measures.
  virtual int64_t StateBytes(int64_t tokens) const = 0;
  // For those that read a source and their own rows too (also_own_rows()): what a run holds beside that of so
  // many rows of its own.
  virtual int64_t OwnStateBytes(int64_t /*rows*/) const { return 0; }
  // The most bytes that a run holds beside its state while rows are done, whose end gives them back. Of a
  // sequence's layers one at a time has them.
  virtual int64_t PassBytes() const { return 0; }
  // Multiply-adds of all heads for the last `rows` of a sequence of `tokens`, themselves included; in
  // cross-attention, for so many rows with a source of `tokens`. What Describe predicts with.
  virtual double Cost(int64_t rows, int64_t tokens) const = 0;
  // For those that read labels: the same two of a whole sequence in which `labelled` rows have one that is
  // not 0, wherever they stand.
  virtual int64_t LabelledStateBytes(int64_t tokens, int64_t labelled) const;
  virtual double LabelledCost(int64_t tokens, int64_t labelled) const;
  // Closed form: the most scratch that a task takes.
  virtual int64_t ScratchBytes() const = 0;

  const std::vector<Product>& products() const { return products_; }
  // The layer has packed them: their numbers are needed no more.
  void DropNumbers();
  int64_t out_width() const { return out_width_; }
  // What is made of the rows that it gives before the output projection reads them; null: nothing.
  const Product* result() const { return result_ ? &*result_ : nullptr; }
  int64_t gated() const { return gated_; }
  DecodeClass decode() const { return decode_; }
  int64_t max_tokens() const { return max_tokens_; }
  bool data_dependent() const { return data_dependent_; }
  const RowLabels& labels() const { return labels_; }
  bool also_own_rows() const { return also_own_rows_; }
  bool projected() const { return projected_; }
  bool reads_input() const { return reads_input_; }
  int64_t constant_bytes() const { return constant_bytes_; }
  int weighing_heads() const { return weighing_heads_; }

 protected:
  std::vector<Product> products_;
  int64_t out_width_ = 0;  // heads * head_dim: the columns that o.weight reads, or result_
  // Of these the last so many, as many as the layer is wide, are a gate instead: what the output projection
  // makes of the others is multiplied by their sigmoid. 0: there is none.
  int64_t gated_ = 0;
  std::optional<Product> result_;  // in groups; then o.weight reads what it gives
  DecodeClass decode_ = DecodeClass::kExact;
  int64_t max_tokens_ = 0;  // the longest sequence, 0 = no limit of its own
  // What a row holds decides whom it meets: another precision's rounding may decide otherwise.
  bool data_dependent_ = false;
  RowLabels labels_;            // that a request may give
  bool also_own_rows_ = false;  // cross-attention whose rows see one another too
  bool reads_input_ =
      false;  // runs read AttentionRows::input, which must still be what products were made of
  int64_t constant_bytes_ = 0;  // of weights that are no products, as held in memory
  // What it gives goes through a product of the layer's, o; else it is added as it is, hidden_size wide.
  bool projected_ = true;
  // Heads whose weights may be asked for (AttentionRows::weights). 0: there is no softmax over all keys, or
  // there are keys that are nobody's.
  int weighing_heads_ = 0;
};

// Makes the variant `fields` names ("type"), as variants.def lists them. Checks every option and tensor; an
// option that nobody knows is an error. The scope holds q.weight and so on; o is the layer's.
absl::StatusOr<std::unique_ptr<Attention>> NewAttention(const AttentionSetting& setting, JsonFields& fields,
                                                        const WeightScope& scope);

// The types of variants.def, in its order.
std::vector<std::string_view> AttentionTypes();

// For variants' factories:
// hidden_size / num_heads; where that is no whole number, the fields fail.
int64_t HeadDim(const AttentionSetting& setting, JsonFields& fields);
// The option head_dim, else the same.
int64_t ReadHeadDim(const AttentionSetting& setting, JsonFields& fields);
// Height and width of the image that positions are pixels of: the options of that name, else the model's own.
// None: the fields fail.
ImageSize ReadImageSize(const AttentionSetting& setting, JsonFields& fields);
// The product `name` of shape [out, in] with its bias where the file has one.
absl::StatusOr<Product> LoadProduct(const WeightScope& scope, std::string_view name, int64_t out, int64_t in);
// An f32 matrix of zeros that a factory fills, by way of Writable().
Tensor ZeroMatrix(int64_t rows, int64_t cols);
inline float* Writable(const Tensor& made) { return static_cast<float*>(const_cast<void*>(made.data)); }
// Several, each [hidden_size, hidden_size].
absl::StatusOr<std::vector<Product>> LoadProducts(const WeightScope& scope,
                                                  const std::vector<std::string_view>& names,
                                                  const AttentionSetting& setting);

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_ATTENTION_H_
