// "nystrom": Nyströmformer (Xiong et al. 2021): m landmarks stand for all n rows; work grows as n m.
//   softmax(Q K~') pinv(softmax(Q~ K~')) (softmax(Q~ K') V) + conv(V),  scores over sqrt(head_dim)
// Landmark s of a head is the mean of the rows floor(s n / m) to floor((s + 1) n / m) - 1 of its q, or k.
// pinv is iterative_inverse.h's, of each head and sequence; conv is row_convolution.h's.
// With n <= m the mixing is softmax(Q K') V, and the convolution stays.
// Options: num_landmarks, m, 8,192 at most: while it is made, the inverse of as many takes 1.3 GB a head;
//   conv_kernel, odd, 4,095 at most: a task holds as many rows (none, or 0: no convolution); inverse_start
//   ("head"): by whose largest column sum the inverse's first guess is divided, each head's own or, with
//   "all_heads", the largest of all heads' (as transformers has it).
// Tensors: q, k, v; conv.weight [heads, 1, conv_kernel, 1].
// Encoder only: a landmark is made of later rows too, so that a decoder would see the future.
// State: keys and values of m landmarks a head; while they are found, also m (head_dim + 2) numbers for
//   each 1,024 rows, and m landmarks thrice.
// For long texts: 65,536 rows with 64 landmarks are a five-hundredth of full attention's work.
//
// Landmarks, the inverse and sums over the sequence are f32; what products with rows read is rounded once.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/attention/few_keys.h"
#include "engine/attention/iterative_inverse.h"
#include "engine/attention/row_convolution.h"
#include "engine/attention/softmax_core.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/pack.h"
#include "engine/ops/rows.h"
#include "engine/ops/scan.h"
#include "engine/ops/softmax.h"

namespace heed {
namespace {

constexpr int64_t kMostLandmarks = 1 << 13;
constexpr int64_t kMostKernel = 4095;
constexpr int64_t kTile = SoftmaxCore::kTile;  // landmarks that read rows together
static_assert(kTile == FewKeysRun::kWritten);

Rows AsRows(Matrix<float> x) { return {DType::kF32, x.data, x.rows, x.cols, x.stride}; }

// ------------------------------------------------------------------------------------------- the attention

class NystromAttention : public FewKeysAttention {
 public:
  struct Landmarks {
    int64_t count = 1;
    bool start_together = false;  // the inverses of all heads begin with one divisor
  };
  NystromAttention(const AttentionSetting& setting, int64_t head_dim, const Landmarks& landmarks,
                   RowConvolution convolution, std::vector<Product> products);

  std::unique_ptr<AttentionRun> Start() const override;
  int64_t Keys(int64_t tokens) const override { return std::min(tokens, landmarks_); }
  double RowCost(int64_t tokens) const override;
  int64_t StateBytes(int64_t tokens) const override;
  double Cost(int64_t rows, int64_t tokens) const override;
  int64_t ScratchBytes() const override;

  const IterativeInverse& inverse() const { return inverse_; }
  const RowConvolution& convolution() const { return convolution_; }
  int64_t landmarks() const { return landmarks_; }
  int64_t tiles() const { return Quotient(landmarks_, kTile); }
  int64_t pitch() const { return RoundUp(core().head_dim(), 16); }
  // Multiply-adds of one landmark's row in a product with a head's rows, with all landmarks' rows.
  double LandmarkCost() const { return static_cast<double>(landmarks_ * core().head_dim()); }
  // Of all that landmarks alone give a head to do.
  double SolveCost() const;
  // One task does that; else each of its steps is a stage, and a step's rows are tasks.
  bool whole() const { return !start_together_ && SolveCost() <= kTaskCost; }
  bool start_together() const { return start_together_; }
  // Rows that landmarks read in one task.
  int64_t part() const;

  // What landmarks give a head to do: their weights of each other, those of the inverse, what they have read,
  // and the values that rows see of them. Multiply-adds of a row of a step, and rows of a task where steps
  // are stages.
  static constexpr int kMeet = 0, kInvert = 1, kMerge = kInvert + IterativeInverse::kSteps,
                       kWeigh = kMerge + 1, kSteps = kWeigh + 1;
  double StepCost(int step) const { return Inverts(step) ? inverse_.RowCost() : LandmarkCost(); }
  int64_t StepRows(int step) const;

  int64_t LandmarkBytes() const;             // of a head's landmarks, and what they find
  int64_t PartsBytes(int64_t tokens) const;  // of what a head's landmarks find part by part
  int64_t WorkBytes() const;                 // of a head's inverse, where its steps are stages

 private:
  static bool Inverts(int step) { return step >= kInvert && step < kMerge; }

  IterativeInverse inverse_;
  RowConvolution convolution_;
  int64_t landmarks_;
  bool start_together_;
};

NystromAttention::NystromAttention(const AttentionSetting& setting, int64_t head_dim,
                                   const Landmarks& landmarks, RowConvolution convolution,
                                   std::vector<Product> products)
    : FewKeysAttention(setting, head_dim, std::move(products)),
      inverse_(landmarks.count),
      convolution_(std::move(convolution)),
      landmarks_(landmarks.count),
      start_together_(landmarks.start_together) {
  constant_bytes_ = convolution_.bytes();
}

double NystromAttention::RowCost(int64_t tokens) const {
  const double beside = convolution_.none() ? 0 : convolution_.RowCost(core().head_dim());
  return FewKeysAttention::RowCost(tokens) + beside;
}

double NystromAttention::SolveCost() const {
  return static_cast<double>(landmarks_) *
         (IterativeInverse::kSteps * inverse_.RowCost() + 2 * LandmarkCost());
}

int64_t NystromAttention::part() const {
  const auto rows = static_cast<int64_t>(kTaskCost / static_cast<double>(2 * kTile * core().head_dim()));
  return std::clamp(RoundDown(rows, kGrid), kGrid, kTakenRows);
}

// Multiples of 8, of the inverse few enough for a task.
int64_t NystromAttention::StepRows(int step) const {
  if (!Inverts(step)) return kTile;
  return std::clamp<int64_t>(RoundDown(static_cast<int64_t>(kTaskCost / inverse_.RowCost()), 8), 8, kTile);
}

int64_t NystromAttention::LandmarkBytes() const { return 3 * landmarks_ * pitch() * SizeOf(DType::kF32); }

int64_t NystromAttention::PartsBytes(int64_t tokens) const {
  return Quotient(tokens, part()) * core().PartBytes(landmarks_);
}

int64_t NystromAttention::WorkBytes() const { return whole() ? 0 : inverse_.Bytes(); }

int64_t NystromAttention::StateBytes(int64_t tokens) const {
  const int64_t head = tokens <= landmarks_ ? 0 : LandmarkBytes() + PartsBytes(tokens) + WorkBytes();
  return KeyBytes(tokens) + heads() * head;
}

double NystromAttention::Cost(int64_t rows, int64_t tokens) const {
  const double n = static_cast<double>(rows);
  const double found = tokens <= landmarks_ ? 0
                                            : n * FewKeysAttention::RowCost(tokens) +
                                                  SolveCost() * n / static_cast<double>(tokens);
  return heads() * (n * RowCost(tokens) + found);
}

int64_t NystromAttention::ScratchBytes() const {
  const auto floats = [](int64_t n) { return Scratch::Piece(n * SizeOf(DType::kF32)); };
  const int64_t rows = floats(kTile * pitch());
  // Read()'s pages count too, though they are memory of their own.
  const int64_t read = Scratch::Piece(kTile * core().head_dim() * SizeOf(core().type())) +
                       KeyValuePages::Bytes(core().type(), core().head_dim(), 0, part());
  const int64_t meet = floats(core().head_dim() * inverse_.columns()) +
                       Scratch::Piece(kTile * static_cast<int64_t>(sizeof(SoftmaxRow)));
  const int64_t solve =
      std::max({meet, inverse_.ScratchBytes(), core().ScratchBytes(), rows + WriteScratchBytes()});
  return std::max(
      {read + core().ScratchBytes(), (whole() ? Scratch::Piece(inverse_.Bytes()) : 0) + solve,
       rows + std::max(core().ScratchBytes(), convolution_.ScratchBytes(kTile, core().head_dim()))});
}

// -------------------------------------------------------------------------------------------- one sequence

class Run : public FewKeysRun {
 public:
  explicit Run(const NystromAttention& attention) : FewKeysRun(attention), attention_(&attention) {}
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override;

 private:
  enum Place : int { kQueries, kKeys, kFound };

  const SoftmaxCore& core() const { return attention_->core(); }
  int64_t n() const { return tokens(); }
  Matrix<float> Landmarks(Place place, int64_t head);
  int64_t Bound(int64_t landmark) const { return landmark * n() / attention_->landmarks(); }
  int64_t Parts() const { return Quotient(n(), attention_->part()); }
  float* PartResult(int64_t head, int64_t tile, int64_t part);

  std::vector<AttentionStage> Plan() override;
  void Make(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  void Attend(const AttentionRows& rows, int head, Range range, Scratch& scratch) const override;
  void Keep(const AttentionRows& rows, int64_t task, Scratch& scratch);
  void Mean(const AttentionRows& rows, int64_t task);
  void Read(const AttentionRows& rows, int64_t task, Scratch& scratch);
  void Solve(int64_t head, Scratch& scratch);
  void SolveStep(int step, int64_t task, Scratch& scratch);
  void Step(int step, int head, int64_t first, int64_t rows, float* work, Scratch& scratch);
  void Meet(int head, int64_t first, int64_t count, float* work, Scratch& scratch);
  void Merge(int head, int64_t first, int64_t count, Scratch& scratch);
  void Weigh(int head, int64_t first, int64_t count, float* work, Scratch& scratch);
  float* Work(int64_t head) {  // where steps are stages
    return work_.as<float>() + head * attention_->WorkBytes() / SizeOf(DType::kF32);
  }
  float Divisor(Scratch& scratch);

  const NystromAttention* attention_;
  Buffer landmarks_, parts_, work_;  // of all heads
  int64_t means_ = 1;                // landmarks of a task
};

Matrix<float> Run::Landmarks(Place place, int64_t head) {
  const int64_t m = attention_->landmarks(), pitch = attention_->pitch();
  return {landmarks_.as<float>() + (3 * head + place) * m * pitch, m, core().head_dim(), pitch};
}

// Those of a tile lie side by side.
float* Run::PartResult(int64_t head, int64_t tile, int64_t part) {
  const int64_t m = attention_->landmarks(), first = tile * kTile, count = std::min(kTile, m - first);
  const int64_t row = core().PartBytes(1) / SizeOf(DType::kF32);
  return parts_.as<float>() + ((head * m + first) * Parts() + part * count) * row;
}

std::vector<AttentionStage> Run::Plan() {
  const NystromAttention& a = *attention_;
  const int64_t m = a.landmarks(), heads = a.heads();
  const auto dim = static_cast<double>(core().head_dim());
  if (n() <= m) {
    const int64_t most = std::min(n(), kTakenRows);
    return {{heads * Quotient(n(), kTakenRows), 2 * kMoved * dim * static_cast<double>(most)}};
  }
  landmarks_ = Buffer::Lasting(heads * a.LandmarkBytes());
  parts_ = Buffer::Lasting(heads * a.PartsBytes(n()));
  work_ = Buffer::Lasting(heads * a.WorkBytes());
  const int64_t rows = Quotient(n(), m), part = std::min(n(), a.part());
  means_ = std::clamp<int64_t>(kTakenRows / rows, 1, m);
  const double read = static_cast<double>(part) * (static_cast<double>(std::min(kTile, m)) + kMoved);
  std::vector<AttentionStage> stages = {
      {heads * Quotient(m, means_), 2 * kMoved * dim * static_cast<double>(means_ * rows)},
      {heads * a.tiles() * Parts(), 2 * dim * read}};
  if (a.whole()) stages.push_back({heads, a.SolveCost()});
  for (int step = 0; step < NystromAttention::kSteps && !a.whole(); ++step) {
    const int64_t some = a.StepRows(step);
    stages.push_back({heads * Quotient(m, some), static_cast<double>(some) * a.StepCost(step)});
  }
  return stages;
}

// Rows that are no more than landmarks are the keys and values; else landmarks are made, read the rows and
// solve.
void Run::Make(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  if (n() <= attention_->landmarks()) return Keep(rows, task, scratch);
  if (stage == 0) return Mean(rows, task);
  if (stage == 1) return Read(rows, task, scratch);
  if (attention_->whole()) return Solve(task, scratch);
  SolveStep(stage - 2, task, scratch);
}

void Run::Keep(const AttentionRows& rows, int64_t task, Scratch& scratch) {
  const int64_t cuts = Quotient(n(), kTakenRows), row = task % cuts * kTakenRows;
  const int64_t count = std::min(kTakenRows, n() - row);
  const int head = static_cast<int>(task / cuts);
  Write(head, row, attention_->Part(rows.products[1], head, row, count),
        attention_->Part(rows.products[2], head, row, count), scratch);
}

void Run::Mean(const AttentionRows& rows, int64_t task) {
  const int64_t m = attention_->landmarks(), cuts = Quotient(m, means_), first = task % cuts * means_;
  const int head = static_cast<int>(task / cuts);
  const auto mean = [&](const Rows& all, Matrix<float> means, int64_t landmark) {
    const int64_t begin = Bound(landmark), end = Bound(landmark + 1);
    const Matrix<float> row = means.Rows(landmark, 1);
    std::fill_n(row.data, row.cols, 0.0f);
    for (int64_t r = begin; r < end; r += kGrid)
      AddColumnSums(attention_->Part(all, head, r, std::min(kGrid, end - r)), row.data);
    Scale(1 / static_cast<float>(end - begin), row);
  };
  for (int64_t s = first; s < std::min(first + means_, m); ++s) {
    mean(rows.products[0], Landmarks(kQueries, head), s);
    mean(rows.products[1], Landmarks(kKeys, head), s);
  }
}

void Run::Read(const AttentionRows& rows, int64_t task, Scratch& scratch) {
  const int64_t part = task % Parts(), tile = task / Parts() % attention_->tiles();
  const int head = static_cast<int>(task / Parts() / attention_->tiles());
  const int64_t first = tile * kTile, count = std::min(kTile, attention_->landmarks() - first);
  const int64_t row = part * attention_->part(), read = std::min(attention_->part(), n() - row);
  const int64_t dim = core().head_dim();

  KeyValuePages pages(core().type(), dim);
  pages.Append(attention_->Part(rows.products[1], head, row, read),
               attention_->Part(rows.products[2], head, row, read));
  SoftmaxQueries queries;
  queries.q = {core().type(), scratch.Take<char>(count * dim * SizeOf(core().type())), count, dim, dim};
  Convert(AsRows(Landmarks(kQueries, head).Rows(first, count)), queries.q);
  const KeySource source{.pages = &pages};
  core().AttendPart(queries, {&source, 1}, 0, PartResult(head, tile, part), scratch);
}

void Run::Solve(int64_t head, Scratch& scratch) {
  float* work = scratch.Take<float>(attention_->inverse().Bytes() / SizeOf(DType::kF32));
  for (int step = 0; step < NystromAttention::kSteps; ++step) {
    for (int64_t first = 0; first < attention_->landmarks(); first += kTile)
      Step(step, static_cast<int>(head), first, kTile, work, scratch);
  }
}

void Run::SolveStep(int step, int64_t task, Scratch& scratch) {
  const int64_t rows = attention_->StepRows(step), tasks = Quotient(attention_->landmarks(), rows);
  const int64_t head = task / tasks;
  Step(step, static_cast<int>(head), task % tasks * rows, rows, Work(head), scratch);
}

// Of the first guesses of all heads, where they have one.
float Run::Divisor(Scratch& scratch) {
  float divisor = 0;
  for (int head = 0; head < attention_->heads() && attention_->start_together(); ++head)
    divisor = std::max(divisor, attention_->inverse().LargestColumnSum(Work(head), scratch));
  return divisor;
}

void Run::Step(int step, int head, int64_t first, int64_t rows, float* work, Scratch& scratch) {
  const ScratchFrame frame(scratch);
  const int64_t count = std::min(rows, attention_->landmarks() - first);
  if (step == NystromAttention::kMeet) return Meet(head, first, count, work, scratch);
  if (step == NystromAttention::kMerge) return Merge(head, first, count, scratch);
  if (step == NystromAttention::kWeigh) return Weigh(head, first, count, work, scratch);
  const float divisor = step == NystromAttention::kInvert ? Divisor(scratch) : 0;
  attention_->inverse().Do(step - NystromAttention::kInvert, first, count, work, scratch, divisor);
}

// -softmax(Q~ K~')
void Run::Meet(int head, int64_t first, int64_t count, float* work, Scratch& scratch) {
  const int64_t m = attention_->landmarks(), columns = attention_->inverse().columns(),
                dim = core().head_dim();
  float* packed = scratch.Take<float>(dim * columns);
  std::fill_n(packed, dim * columns, 0.0f);
  PackColumns(AsRows(Landmarks(kKeys, head)), 0, columns, packed);
  const Matrix<float> weights = attention_->inverse().Negative(work).Rows(first, count);
  MicroKernel::Multiply(AsRows(Landmarks(kQueries, head).Rows(first, count)), packed, columns, weights);

  const std::span<SoftmaxRow> rows(scratch.Take<SoftmaxRow>(count), static_cast<size_t>(count));
  std::ranges::fill(rows, SoftmaxRow{.end = static_cast<int>(m)});
  const auto factor = static_cast<float>(std::numbers::log2e / std::sqrt(static_cast<double>(dim)));
  SoftmaxStep({weights, factor, 0, static_cast<int>(columns), AsRows(weights)}, rows, {});
  for (int64_t r = 0; r < count; ++r) Scale(-1 / rows[r].sum, weights.Rows(r, 1));
}

void Run::Merge(int head, int64_t first, int64_t count, Scratch& scratch) {
  const Matrix<float> found = Landmarks(kFound, head).Rows(first, count);
  std::fill_n(found.data, count * found.stride, 0.0f);
  SoftmaxQueries queries;
  queries.q = {core().type(), nullptr, count, found.cols, found.cols};
  queries.out = AsRows(found);
  core().MergeParts(queries, Parts(), PartResult(head, first / kTile, 0), scratch);
}

// pinv(...) times what the landmarks have found
void Run::Weigh(int head, int64_t first, int64_t count, float* work, Scratch& scratch) {
  const int64_t m = attention_->landmarks(), pitch = attention_->pitch();
  const Rows inverse = AsRows(attention_->inverse().Result(work).Rows(first, count)).Cols(0, m);
  const Matrix<float> values{scratch.Take<float>(count * pitch), count, pitch, pitch};
  MicroKernel::Multiply(inverse, Landmarks(kFound, head).data, pitch, values);
  Write(head, first, AsRows(Landmarks(kKeys, head).Rows(first, count)),
        AsRows(values.Cols(0, core().head_dim())), scratch);
}

void Run::Attend(const AttentionRows& rows, int head, Range range, Scratch& scratch) const {
  if (attention_->convolution().none()) return FewKeysRun::Attend(rows, head, range, scratch);
  const int64_t pitch = attention_->pitch();
  const Rows v = attention_->Part(rows.products[2], head, 0, n());
  for (int64_t first = range.begin; first < range.end; first += kTile) {
    const ScratchFrame frame(scratch);
    const int64_t some = std::min(kTile, range.end - first);
    const Matrix<float> sums{scratch.Take<float>(kTile * pitch), some, core().head_dim(), pitch};
    {
      const ScratchFrame attending(scratch);
      AttendTo(head, attention_->Part(rows.products[0], head, first, some), AsRows(sums), scratch);
    }
    attention_->convolution().Add(head, v, first, sums, scratch);
    Convert(AsRows(sums), attention_->Part(rows.out, head, first, some));
  }
}

void Run::Archive(StateArchive& archive) {
  if (archive.measuring()) {
    for (Buffer* buffer : {&landmarks_, &parts_, &work_})
      archive.Bytes(*buffer, static_cast<int64_t>(buffer->size()));
  }
  FewKeysRun::Archive(archive);
}

std::unique_ptr<AttentionRun> NystromAttention::Start() const { return std::make_unique<Run>(*this); }

}  // namespace

// ---------------------------------------------------------------------------------- its options and tensors

absl::StatusOr<std::unique_ptr<Attention>> NewNystromAttention(const AttentionSetting& setting,
                                                               JsonFields& fields, const WeightScope& scope) {
  RefuseAllButEncoders(setting, "nystrom", "landmarks are means of later rows too", fields);
  const int64_t head_dim = HeadDim(setting, fields);
  const NystromAttention::Landmarks landmarks{
      .count = fields.RequiredInt("num_landmarks", 1, kMostLandmarks),
      .start_together = fields.Choice("inverse_start", {"head", "all_heads"}) == "all_heads"};
  const int64_t kernel = fields.Int("conv_kernel", 0, 0, kMostKernel);
  if (kernel > 0 && kernel % 2 == 0)
    fields.Fail(Cat("conv_kernel: ", kernel, " is even: no row is in its middle"));
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadProducts(scope, {"q", "k", "v"}, setting));
  RowConvolution convolution;
  if (kernel > 0) {
    ASSIGN_OR_RETURN(const std::vector<float> kernels,
                     scope.Floats("conv.weight", {setting.num_heads, 1, kernel, 1}));
    convolution = RowConvolution(ActivationType(setting.precision), kernels, setting.num_heads);
  }
  return std::make_unique<NystromAttention>(setting, head_dim, landmarks, std::move(convolution),
                                            std::move(products));
}

}  // namespace heed
