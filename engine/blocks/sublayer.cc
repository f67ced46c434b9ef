#include "engine/blocks/sublayer.h"

#include <algorithm>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "engine/ops/gates.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

// What is a product of the source, what is apart because it chooses or is the residual, what others make,
// what is made of others' results, and what is none of these.
enum class Pack { kRows, kChoosing, kQueries, kSource, kLent, kChained };

Pack PackOf(const Product& product, const ResidualOptions& residual, Precision precision) {
  if (product.of) return Pack::kChained;
  if (product.of_source) return product.lent ? Pack::kLent : Pack::kSource;
  if (residual.of_queries && product.name == "q") return Pack::kQueries;
  return product.chooses && precision == Precision::kInt8 ? Pack::kChoosing : Pack::kRows;
}

PackedWeights PackProducts(const std::vector<Product>& products, Pack pack, const ResidualOptions& residual,
                           Precision precision) {
  std::vector<PackedWeights::Part> parts;
  for (const Product& product : products) {
    if (PackOf(product, residual, precision) == pack) parts.push_back({product.weight, product.bias});
  }
  if (pack == Pack::kChoosing) precision = PrecisionOfChoices(precision);
  return parts.empty() ? PackedWeights() : PackedWeights::Pack(parts, precision);
}

// f(first, count) for each run of rows that are labelled or, without labels, stand at positions among
// `these`.
template <typename F>
void ForRunsApart(const std::vector<int64_t>& these, const RowPlaces& places, F f) {
  const int64_t rows = std::ssize(places.positions);
  const auto apart = [&](int64_t row) {
    const int32_t label = places.labels.empty() ? RowPlaces::kNoLabel : places.labels[row];
    if (label != RowPlaces::kNoLabel) return label != 0;
    return std::ranges::binary_search(these, places.positions[row]);
  };
  for (int64_t row = 0, end; row < rows; row = end + 1) {
    for (end = row; end < rows && apart(end);) ++end;
    if (end > row) f(row, end - row);
  }
}

double MultiplyAdds(const PackedWeights& weights) {
  return static_cast<double>(weights.in()) * static_cast<double>(weights.out());
}

}  // namespace

Rows ForProduct(RowBlock& block, const Matrix<float>& x, const Norm* norm) {
  const Rows read = block.buffers.input.First(block.rows()).Cols(0, x.cols);
  if (norm == nullptr && read.dtype == DType::kF32) return AsRows(x);
  ForRows(block, [&](int64_t first, int64_t count) {
    const Matrix<float> from = x.Rows(first, count);
    const Rows to = read.Slice(first, count);
    norm != nullptr ? norm->Apply(from, to) : Convert(AsRows(from), to);
  });
  return read;
}

absl::StatusOr<Residual> Residual::Load(const WeightScope& norm_scope, const ResidualOptions& options) {
  CHECK(options.read_column == options.write_column || options.norm.placement == NormPlacement::kPre);
  Residual residual;
  residual.options_ = options;
  if (options.norm.placement == NormPlacement::kNone) return residual;
  ASSIGN_OR_RETURN(residual.norm_, Norm::Load(norm_scope, options.width, options.norm));
  if (options.norm.placement == NormPlacement::kSandwich) {
    ASSIGN_OR_RETURN(residual.post_, Norm::Load(norm_scope.Suffixed("_post"), options.width, options.norm));
  }
  return residual;
}

Rows Residual::Open(RowBlock& block, const Rows& inputs) const {
  const Matrix<float> x = options_.reads_inputs ? inputs.As<float>() : Read(block.x);
  if (options_.norm.placement == NormPlacement::kNormed) {
    ForRows(block, [&](int64_t first, int64_t count) {
      norm_.Apply(x.Rows(first, count), AsRows(x.Rows(first, count)));
    });
  }
  return ForProduct(block, x, NormsInput(options_.norm.placement) ? &norm_ : nullptr);
}

void Residual::Normalize(Matrix<const float> x, const Rows& y) const {
  if (NormsInput(options_.norm.placement)) return norm_.Apply(x, y);
  Convert({DType::kF32, const_cast<float*>(x.data), x.rows, x.cols, x.stride}, y);
}

const Norm* Residual::NormOfResult() const {
  if (options_.norm.placement == NormPlacement::kResPost) return &norm_;
  return options_.norm.placement == NormPlacement::kSandwich ? &post_ : nullptr;
}

void Residual::Close(RowBlock& block, absl::FunctionRef<void(const Epilogue&)> f) const {
  const Matrix<float> x = block.x.Cols(options_.write_column, options_.width);
  if (NormOfResult() == nullptr && options_.multiplier == 1) {
    f({.out = AsRows(x), .add = true});
  } else {
    AddApart(block, x, f);
  }
  if (options_.norm.placement != NormPlacement::kPost) return;
  ForRows(block, [&](int64_t first, int64_t count) {
    norm_.Apply(x.Rows(first, count), AsRows(x.Rows(first, count)));
  });
}

// By way of memory of its own.
void Residual::AddApart(RowBlock& block, const Matrix<float>& x,
                        absl::FunctionRef<void(const Epilogue&)> f) const {
  const Rows result = block.buffers.result.First(block.rows()).Cols(0, options_.width);
  f({.out = result});
  ForRows(block, [&](int64_t first, int64_t count) {
    const Rows rows = result.Slice(first, count);
    if (const Norm* const norm = NormOfResult()) norm->Apply(rows.As<float>(), rows);
    AddShares(options_.multiplier, rows.As<float>(), 1, AsRows(x.Rows(first, count)));
  });
}

absl::StatusOr<AttentionSublayer> AttentionSublayer::Load(
    std::unique_ptr<Attention> attention, const WeightScope& scope, const WeightScope& norm_scope,
    const ResidualOptions& residual, Precision precision, const SublayerWeights& weights) {
  AttentionSublayer sublayer;
  sublayer.lender_ = weights.lender;
  sublayer.type_ = ActivationType(precision);
  if (attention->result() != nullptr)
    sublayer.result_ = GroupedProduct::Pack(*attention->result(), precision);
  const int64_t given = sublayer.result_ ? sublayer.result_->out() : attention->out_width();
  ASSIGN_OR_RETURN(sublayer.residual_, Residual::Load(norm_scope, residual));
  const int64_t read = given - attention->gated();
  CHECK(attention->projected() || given == residual.width);
  if (!residual.of_queries && attention->projected()) {
    ASSIGN_OR_RETURN(Product o, LoadProduct(scope, weights.output, residual.width, read));
    sublayer.output_ = PackedWeights::Pack({{o.weight, o.bias}}, precision);
  }
  const auto packed = [&](Pack pack) {
    return PackProducts(attention->products(), pack, residual, precision);
  };
  if (weights.lender == nullptr) sublayer.products_ = packed(Pack::kRows);
  sublayer.choosing_ = packed(Pack::kChoosing);
  sublayer.queries_ = packed(Pack::kQueries);
  sublayer.source_products_ = packed(Pack::kSource);
  if (residual.of_queries) {
    CHECK(residual.norm.placement == NormPlacement::kNone && sublayer.choosing_.out() == 0);
    CHECK(sublayer.queries_.out() == residual.width && attention->out_width() == residual.width);
    CHECK(std::ranges::none_of(attention->products(), [](const Product& p) { return p.finish || p.of; }));
  }
  int rows = 0, choosing = 0, source = 0;  // the next among its kind
  for (size_t number = 0; number < attention->products().size(); ++number) {
    const Product& product = attention->products()[number];
    const Pack pack = PackOf(product, residual, precision);
    if (pack == Pack::kChained) {
      sublayer.AddChained(number, product, precision);
      continue;
    }
    sublayer.cross_ = sublayer.cross_ || product.of_source;
    const int64_t column = pack == Pack::kSource ? sublayer.source_products_.offset(source++)
                           : pack == Pack::kLent ? sublayer.columns_[*product.lent]
                           : pack == Pack::kChoosing
                               ? sublayer.beside_column() + sublayer.choosing_.offset(choosing++)
                           : pack == Pack::kQueries ? sublayer.beside_column()
                                                    : sublayer.products().offset(rows++);
    sublayer.columns_.push_back(column);
    const RowsApart& apart = product.apart;
    if (apart.weight.data == nullptr) continue;
    sublayer.apart_.push_back(
        {apart.positions, PackedWeights::Pack({{apart.weight, apart.bias}}, precision), column});
  }
  CHECK(sublayer.chained_.empty() || weights.lender == nullptr);
  attention->DropNumbers();
  sublayer.attention_ = std::move(attention);
  return sublayer;
}

void AttentionSublayer::AddChained(size_t number, const Product& product, Precision precision) {
  chained_.push_back({number, *product.of, GroupedProduct::Pack(product, precision)});
  const int64_t column = RoundUp(std::max(columns_end_, unchained_width()), 16);
  columns_.push_back(column);
  columns_end_ = column + chained_.back().weights.out();
}

void AttentionSublayer::Open(RowBlock& block, const RowPlaces& places, const Rows& products,
                             const Rows& inputs) const {
  const Rows input = residual_.Open(block, inputs);
  const PackedWeights& made = this->products();
  if (made.out() > 0) Linear(block, input, made, {.out = products.Cols(0, made.out())});
  if (choosing_.out() > 0)
    Linear(block, input, choosing_, {.out = products.Cols(beside_column(), choosing_.out())});
  for (const Apart& apart : apart_) {
    const Rows out = products.Cols(apart.offset, apart.weights.out());
    ForRunsApart(apart.positions, places, [&](int64_t first, int64_t count) {
      Linear(block, input.Slice(first, count), apart.weights, {.out = out.Slice(first, count)});
    });
  }
  FinishProducts(block, products, /*of_source=*/false);
  if (queries_.out() > 0) TakeQueries(block, input, products);
  RunChained(block, products);
}

void AttentionSublayer::RunChained(RowBlock& block, const Rows& products) const {
  for (const Chained& chained : chained_) {
    const Rows out = ColumnsOf(chained.product, products);
    chained.weights.Run(block, ColumnsOf(chained.of, products), out);
    const Product& product = attention_->products()[chained.product];
    if (!product.finish) continue;
    ForRows(block, [&](int64_t first, int64_t count) { product.finish(out.Slice(first, count)); });
  }
}

// The residual stream may be what is read, so it changes when the product is done.
void AttentionSublayer::TakeQueries(RowBlock& block, const Rows& input, const Rows& products) const {
  const Rows queries = block.buffers.result.First(block.rows()).Cols(0, queries_.out());
  Linear(block, input, queries_, {.out = queries});
  ForRows(block, [&](int64_t first, int64_t count) {
    const Rows q = queries.Slice(first, count);
    Convert(q, AsRows(block.x.Rows(first, count)));
    Convert(q, products.Slice(first, count).Cols(beside_column(), q.cols));
  });
}

void AttentionSublayer::OpenSource(RowBlock& source, const Rows& products, const Rows& inputs) const {
  const Matrix<float> x = source_reads_inputs_ ? inputs.As<float>() : source.x;
  const Rows input = ForProduct(source, x, source_norm_ ? &*source_norm_ : nullptr);
  Linear(source, input, source_products_, {.out = products});
  FinishProducts(source, products, /*of_source=*/true);
}

void AttentionSublayer::FinishProducts(RowBlock& block, const Rows& results, bool of_source) const {
  const std::vector<Product>& all = attention_->products();
  const auto due = [&](const Product& product) {
    return product.finish && product.of_source == of_source && !product.lent && !product.of;
  };
  if (std::ranges::none_of(all, due)) return;
  ForRows(block, [&](int64_t first, int64_t count) {
    for (size_t p = 0; p < all.size(); ++p) {
      if (due(all[p])) all[p].finish(ColumnsOf(p, results.Slice(first, count)));
    }
  });
}

Rows AttentionSublayer::Results(Pieces pieces, int64_t rows, int64_t* bytes) const {
  const Rows results = pieces.TakeRows(rows, result_->out(), type_);
  if (bytes != nullptr) *bytes = pieces.bytes();
  return results;
}

int64_t AttentionSublayer::SharedBytes(int64_t rows) const {
  int64_t bytes = 0;
  if (result_) Results(Pieces(), rows, &bytes);
  return bytes;
}

void AttentionSublayer::CloseGated(RowBlock& block, const Rows& attended) const {
  const Rows read = attended.Cols(0, output_.in()), gate = attended.Cols(output_.in(), output_.out());
  residual_.Close(block, [&](const Epilogue& out) {
    const Rows result = out.add ? block.buffers.result.First(block.rows()).Cols(0, output_.out()) : out.out;
    Linear(block, read, output_, {.out = result});
    ForRows(block, [&](int64_t first, int64_t count) {
      const Rows rows = result.Slice(first, count);
      MultiplyBySigmoid(gate.Slice(first, count), rows);
      if (out.add) Add(rows.As<float>(), out.out.Slice(first, count).As<float>());
    });
  });
}

void AttentionSublayer::Close(RowBlock& block, const Rows& attended) const {
  Rows read = attended;
  if (result_) {
    read = Results(Pieces(block.buffers.shared.as<void>()), block.buffers.rows()).Slice(0, block.rows());
    result_->Run(block, attended, read);
  }
  if (attention_->gated() > 0) return CloseGated(block, read);
  if (output_.out() > 0)
    return residual_.Close(block, [&](const Epilogue& out) { Linear(block, read, output_, out); });
  residual_.Close(block, [&](const Epilogue& out) {
    const Rows floats = block.buffers.result.First(block.rows()).Cols(0, read.cols);
    ForRows(block, [&](int64_t first, int64_t count) {
      Convert(read.Slice(first, count), floats.Slice(first, count));
      if (out.add) Add(floats.Slice(first, count).As<float>(), out.out.Slice(first, count).As<float>());
    });
  });
}

std::vector<Rows> AttentionSublayer::Split(const Rows& products, const Rows& source, const Rows& lent) const {
  std::vector<Rows> split;
  for (size_t p = 0; p < columns_.size(); ++p) {
    const Product& product = attention_->products()[p];
    const Rows& rows = !product.of_source ? products : product.lent ? lent : source;
    split.push_back(ColumnsOf(p, rows));
  }
  return split;
}

int64_t AttentionSublayer::open_reads() const {
  int64_t most = 0;
  for (const Chained& chained : chained_) most = std::max(most, chained.weights.in());
  return most;
}

double AttentionSublayer::open_multiply_adds() const {
  double sum = MultiplyAdds(products()) + MultiplyAdds(choosing_) + MultiplyAdds(queries_);
  for (const Chained& chained : chained_) sum += chained.weights.multiply_adds();
  return sum;
}

double AttentionSublayer::close_multiply_adds() const {
  return MultiplyAdds(output_) + (result_ ? result_->multiply_adds() : 0);
}

double AttentionSublayer::apart_multiply_adds() const {
  double sum = 0;
  for (const Apart& apart : apart_) sum += MultiplyAdds(apart.weights);
  return sum;
}

double AttentionSublayer::source_multiply_adds() const { return MultiplyAdds(source_products_); }

absl::StatusOr<FeedForwardSublayer> FeedForwardSublayer::Load(std::unique_ptr<FeedForward> feed_forward,
                                                              const WeightScope& norm_scope,
                                                              const ResidualOptions& residual) {
  FeedForwardSublayer sublayer;
  ASSIGN_OR_RETURN(sublayer.residual_, Residual::Load(norm_scope, residual));
  sublayer.feed_forward_ = std::move(feed_forward);
  return sublayer;
}

void FeedForwardSublayer::Run(RowBlock& block) const {
  Rows input = residual_.Open(block);
  residual_.Close(block, [&](const Epilogue& out) { feed_forward_->Run(block, input, out); });
}

}  // namespace heed
