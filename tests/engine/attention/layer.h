// One attention layer of an example, with random weights, and sequences that pass through it.
#ifndef HEED_TESTS_ENGINE_ATTENTION_LAYER_H_
#define HEED_TESTS_ENGINE_ATTENTION_LAYER_H_

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "engine/base/archive.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/rows.h"
#include "tests/engine/attention/examples.h"
#include "tests/engine/attention/random_rows.h"
#include "tests/testing/random_weights.h"

namespace heed {

class Layer : public LayerInput {
 public:
  Layer(const AttentionExample& example, Precision precision)
      : Layer(example, precision,
              *NewRandomWeights([bare = example.bare](const std::string&) { return !bare; }, /*seed=*/7)) {}
  // With the tensors that it asks these for.
  Layer(const AttentionExample& example, Precision precision, const Weights& made)
      : example_(example), precision_(precision) {
    options_ = *ParseJson(example.options, "options");
    options_["type"] = example.type;
    auto attention = New(options_, WeightScope(made));
    CHECK(attention.ok()) << attention.status();
    attention_ = *std::move(attention);
    weights_ = Weights::Of(made.tensors());
    std::vector<PackedWeights::Part> parts;
    for (const Product& product : attention_->products()) {
      if (!product.of_source && !product.of) parts.push_back({product.weight, product.bias});
    }
    if (!parts.empty()) packed_ = PackedWeights::Pack(parts, precision);
  }

  // A norm of its own, before the products.
  void Normalize(Matrix<const float> input, const Rows& normed) const override {
    const std::vector<float> weight(input.cols, 0.7f);
    RmsNorm(input, weight.data(), 1e-5f, normed);
  }
  const PackedWeights& products() const override { return packed_; }

  absl::StatusOr<std::unique_ptr<Attention>> New(const Json& options, const WeightScope& scope) const {
    return New(options, scope, example_.place);
  }
  absl::StatusOr<std::unique_ptr<Attention>> New(const Json& options, const WeightScope& scope,
                                                 Place place) const {
    const AttentionSetting setting{.width = example_.width,
                                   .num_heads = example_.num_heads,
                                   .causal = place == Place::kDecoder,
                                   .cross = place == Place::kCross,
                                   .precision = precision_,
                                   .where = "config.json: layers[0].attention",
                                   .image = example_.image,
                                   .front = example_.front,
                                   .spacing = example_.spacing};
    JsonFields fields(options, setting.where);
    return NewAttention(setting, fields, scope);
  }

  const Attention& attention() const { return *attention_; }
  WeightScope scope() const { return WeightScope(*weights_); }
  const AttentionExample& example() const { return example_; }
  const Json& options() const { return options_; }
  // What the attention has asked for.
  const std::map<std::string, Tensor>& tensors() const { return weights_->tensors(); }
  const float* tensor(const std::string& name) const {
    return static_cast<const float*>(tensors().at(name).data);
  }
  const int64_t* integers(const std::string& name) const {
    return static_cast<const int64_t*>(tensors().at(name).data);
  }
  DType type() const { return ActivationType(precision_); }
  bool cross() const { return example_.place == Place::kCross; }
  bool causal() const { return example_.causal(); }

 private:
  AttentionExample example_;
  Precision precision_;
  std::unique_ptr<Weights> weights_;
  Json options_;
  std::unique_ptr<Attention> attention_;
  PackedWeights packed_;
};

// Rows of one sequence, as the layer's products give them, and what the attention makes of them. The layer's
// input is random rows too, and what stands in the one is independent of the other.
class Passage {
 public:
  // The source of cross-attention has half the rows.
  Passage(const Layer& layer, int64_t n, int seed = 100)
      : layer_(layer),
        n_(n),
        source_(layer.cross() ? (n + 1) / 2 : n),
        input_(OwnedRows::Random(DType::kF32, n, layer.example().width, seed - 1)),
        out_(layer.type(), n, layer.attention().out_width()) {
    for (const Product& product : layer.attention().products()) {
      const int64_t rows = product.of_source ? source_ : n;
      products_.push_back(OwnedRows::Random(layer.type(), rows, product.weight.dim(0), seed++));
    }
  }

  // Rows [begin, end), the tasks of each stage from the first or from the last. The first call of
  // cross-attention brings all of the source.
  void Extend(AttentionRun& run, int64_t begin, int64_t end, bool backwards = false) {
    AttentionRows rows = RowsOf(begin, end);
    const std::vector<OwnedRows> products = Products(rows);
    std::vector<Rows> views;
    for (const OwnedRows& product : products) views.push_back(product.rows());
    rows.products = views.data();
    std::vector<float> weights(weights_.empty() ? 0 : heads() * rows.count * source_, std::nanf(""));
    if (!weights.empty()) rows.weights = weights.data();
    rows.weight_keys = source_;
    const std::vector<AttentionStage> stages = run.Begin(rows);
    for (int stage = 0; stage < std::ssize(stages); ++stage) {
      const int64_t tasks = stages[stage].tasks;
      for (int64_t i = 0; i < tasks; ++i) Do(run, rows, stage, backwards ? tasks - 1 - i : i);
    }
    for (int64_t i = 0; i < (weights.empty() ? 0 : heads() * rows.count); ++i) {
      const int64_t head = i / rows.count, row = begin + i % rows.count;
      std::copy_n(weights.data() + i * source_, source_, weights_.data() + (head * n_ + row) * source_);
    }
  }
  // In pieces of `rows`.
  void ExtendBy(AttentionRun& run, int64_t begin, int64_t end, int64_t rows) {
    for (; begin < end; begin += rows) Extend(run, begin, std::min(end, begin + rows));
  }

  // What all rows give a fresh run to do; nothing of it is done.
  std::vector<AttentionStage> Plan(AttentionRun& run) const { return run.Begin(RowsOf(0, n_)); }
  // From now on the rows' weights are asked for.
  void AskForWeights() { weights_.assign(heads() * n_ * source_, std::nanf("")); }
  std::span<const float> weights(int64_t head, int64_t row) const {
    return std::span(weights_).subspan((head * n_ + row) * source_, source_);
  }
  bool scratch_grew() const { return scratch_grew_; }  // beyond what the attention has declared
  const Layer& layer() const { return layer_; }
  int64_t n() const { return n_; }
  int64_t source() const { return source_; }  // rows that become keys
  OwnedRows& input() { return input_; }
  const OwnedRows& input() const { return input_; }
  // What a request gives: a label a row. Before the first rows.
  void Label(std::vector<int32_t> labels) { labels_ = std::move(labels); }
  // The same of types, of the rows and of the source's.
  void Type(std::vector<int32_t> types, std::vector<int32_t> source_types) {
    types_ = std::move(types);
    source_types_ = std::move(source_types);
  }
  int32_t type(int64_t row) const { return types_.empty() ? 0 : types_[row]; }
  int32_t source_type(int64_t row) const { return source_types_.empty() ? 0 : source_types_[row]; }
  // Of an image, before the first rows: how many lie beside each other.
  void Arrange(int64_t columns) { columns_ = columns; }
  int64_t columns() const { return columns_; }
  OwnedRows& product(int p) { return products_[p]; }
  const OwnedRows& product(int p) const { return products_[p]; }
  const OwnedRows& out() const { return out_; }

 private:
  AttentionRows RowsOf(int64_t begin, int64_t end) const {
    AttentionRows rows;
    rows.first = begin;
    rows.count = end - begin;
    rows.source_count = !layer_.cross() ? rows.count : begin == 0 ? source_ : 0;
    rows.input = input_.rows().As<const float>().Rows(begin, rows.count);
    rows.layer = &layer_;
    rows.out = out_.rows().Slice(begin, rows.count);
    rows.columns = columns_;
    if (!labels_.empty()) rows.labels = &labels_[begin];
    if (!types_.empty()) rows.types = &types_[begin];
    if (!source_types_.empty()) rows.source_types = source_types_.data();
    return rows;
  }
  // As the layer hands them on: finished, where that is asked for.
  std::vector<OwnedRows> Products(const AttentionRows& rows) const {
    std::vector<OwnedRows> products;
    for (size_t p = 0; p < products_.size(); ++p) {
      const Product& product = layer_.attention().products()[p];
      const OwnedRows& all = products_[p];
      OwnedRows& own = products.emplace_back(
          layer_.type(), product.of_source ? rows.source_count : rows.count, all.rows().cols);
      Convert(all.rows().Slice(product.of_source ? 0 : rows.first, own.rows().rows), own.rows());
      if (product.finish) product.finish(own.rows());
    }
    return products;
  }
  void Do(AttentionRun& run, const AttentionRows& rows, int stage, int64_t task) {
    Scratch scratch;
    scratch.Reserve(layer_.attention().ScratchBytes());
    const size_t reserved = scratch.bytes();
    run.Do(rows, stage, task, scratch);
    scratch_grew_ = scratch_grew_ || scratch.bytes() > reserved;
  }

  int64_t heads() const { return layer_.attention().weighing_heads(); }

  const Layer& layer_;
  int64_t n_, source_;
  OwnedRows input_;
  std::vector<OwnedRows> products_;
  std::vector<int32_t> labels_, types_, source_types_;
  int64_t columns_ = 0;
  OwnedRows out_;
  std::vector<float> weights_;  // [heads, n, source], if they are asked for
  bool scratch_grew_ = false;
};

// The bytes of lasting memory that all rows at once take, at most at any time.
inline int64_t MostWhileAttending(Passage& passage, AttentionRun& run) {
  const int64_t before = LastingMemory::Bytes();
  LastingMemory::MeasureAnew();
  passage.Extend(run, 0, passage.n());
  return LastingMemory::Most() - before;
}

inline Passage Whole(const Layer& layer, int64_t n, int seed = 100) {
  Passage passage(layer, n, seed);
  passage.Extend(*layer.attention().Start(), 0, n);
  return passage;
}

// A label, 1, on so many of n rows, spread over all.
inline std::vector<int32_t> Labels(int64_t n, int64_t labelled) {
  std::vector<int32_t> labels(n);
  for (int64_t i = 0; i < labelled; ++i) labels[i * n / labelled] = 1;
  return labels;
}

inline Passage Labelled(const Layer& layer, const std::vector<int32_t>& labels) {
  Passage passage(layer, std::ssize(labels));
  passage.Label(labels);
  passage.Extend(*layer.attention().Start(), 0, passage.n());
  return passage;
}

// Micro-kernels' multiply-adds of n rows.
inline int64_t MultiplyAddsOf(const Layer& layer, int64_t n) {
  const int64_t before = MicroKernel::MultiplyAdds();
  Whole(layer, n);
  return MicroKernel::MultiplyAdds() - before;
}

// What a run's state holds now.
inline int64_t Measured(AttentionRun& run) {
  StateArchive archive = StateArchive::Measuring();
  run.Archive(archive);
  return archive.measured();
}

// How far n rows of which the last come a few at a time, after `from` at once, are from the whole.
inline double DifferenceOfSteps(const Layer& layer, int64_t n, int64_t from, int64_t rows) {
  const Passage whole = Whole(layer, n);
  Passage steps(layer, n);
  const auto run = layer.attention().Start();
  steps.Extend(*run, 0, from);
  steps.ExtendBy(*run, from, n, rows);
  return LargestDifference(whole.out(), steps.out());
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_ATTENTION_LAYER_H_
