// "synthesizer": Synthesizer (Tay et al. 2021): softmax(B) V, where the logits B do not come from queries
// and keys.
//   form               B[i, j] of a head                      tensors
//   dense              (W2 relu(W1 x_i + b1) + b2)[j]         dense1, dense2
//   random             R[i, j]                                random [heads, n_max, n_max]
//   factorized_dense   A[j mod a] C[j div a], A = Wa u + ba,  dense1, factor_a, factor_c
//                      C = Wc u + bc, u = relu(W1 x_i + b1)
//   factorized_random  R1[i] . R2[j]                          random1, random2 [heads, n_max, rank]
//   mixture            sum of softmax(mix)[t] B_t[i, j]       mix [heads, terms], those of the terms
//   dot_product        q_i . k_j / sqrt(head_dim)             q, k; only in a mixture
// Options: form; n_max, the longest sequence; factors [a, c] with a c = n_max, of factorized_dense; rank, of
// factorized_random, 65,536 at most, since a task holds as many numbers of each row; terms of a mixture:
// different forms, dot_product among them.
// Of the past only the values are remembered, and the keys with dot_product.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/attention/mix_core.h"
#include "engine/attention/pattern_attention.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostPositions = 1 << 20;
constexpr int64_t kMostRank = 1 << 16;  // a task holds as many numbers for each of its rows

struct SynthesizerOptions : PatternOptions {
  int64_t n_max = 0, a = 0, c = 0, rank = 0;
  std::vector<std::string> terms;  // of one form alone, that form
  bool mixture = false;
  int dense1 = -1;  // the product that the scores of a row are made of, if there is one

  bool Has(std::string_view term) const { return std::find(terms.begin(), terms.end(), term) != terms.end(); }
  bool reads_dense() const { return Has("dense") || Has("factorized_dense"); }
};

// ------------------------------------------------------------------------------------------- the attention

class SynthesizerAttention : public PatternAttention {
 public:
  struct Head {
    MixScores scores;
    float dot_product;  // its share of the scores
  };
  SynthesizerAttention(const AttentionSetting& setting, const SynthesizerOptions& options,
                       std::vector<Head> heads, std::vector<Product> products);

  double PairCost() const override;
  double Cost(int64_t rows, int64_t tokens) const override;
  int64_t ScratchBytes() const override {
    return Scratch::Piece(SoftmaxCore::kTile * core().head_dim() * SizeOf(DType::kF32)) +
           Scratch::Piece(SoftmaxCore::kTile * core().head_dim() * SizeOf(core().type())) +
           MixTile::ScratchBytes(heads_.front().scores) + PatternAttention::ScratchBytes();
  }
  void Prepare(const AttentionRows& rows, const Tile& tile, SoftmaxQueries& queries,
               std::vector<KeySource>& sources, std::vector<std::unique_ptr<ScoreBias>>& biases,
               Scratch& scratch) const override;

 private:
  std::vector<Head> heads_;
  int dense1_;
};

SynthesizerAttention::SynthesizerAttention(const AttentionSetting& setting, const SynthesizerOptions& options,
                                           std::vector<Head> heads, std::vector<Product> products)
    : PatternAttention(setting, options, std::move(products)),
      heads_(std::move(heads)),
      dense1_(options.dense1) {
  max_tokens_ = options.n_max;
  for (const Head& head : heads_) constant_bytes_ += head.scores.bytes();
}

Rows Scaled(const Rows& q, float factor, Scratch& scratch) {
  const Rows wide{DType::kF32, scratch.Take<float>(q.rows * q.cols), q.rows, q.cols, q.cols};
  const Rows scaled{q.dtype, scratch.Take<char>(q.rows * q.cols * SizeOf(q.dtype)), q.rows, q.cols, q.cols};
  Convert(q, wide);
  Scale(factor, wide.As<float>());
  Convert(wide, scaled);
  return scaled;
}

void SynthesizerAttention::Prepare(const AttentionRows& rows, const Tile& tile, SoftmaxQueries& queries,
                                   std::vector<KeySource>& sources,
                                   std::vector<std::unique_ptr<ScoreBias>>& biases, Scratch& scratch) const {
  const Head& head = heads_[tile.head];
  const int64_t dim = core().head_dim();
  if (options().q >= 0) queries.q = Scaled(queries.q, head.dot_product, scratch);
  const Rows given = dense1_ < 0
                         ? Rows{core().type(), nullptr, tile.count, 0, 0}
                         : rows.products[dense1_].Slice(tile.row, tile.count).Cols(tile.head * dim, dim);
  biases.push_back(std::make_unique<MixTile>(head.scores, given, queries.first, scratch));
  sources.front().bias = biases.back().get();
}

double SynthesizerAttention::PairCost() const {
  const int64_t products = options().k >= 0 ? 2 : 1;
  return heads_.front().scores.score_cost() + static_cast<double>(products * core().head_dim());
}

double SynthesizerAttention::Cost(int64_t rows, int64_t tokens) const {
  const double row = heads_.front().scores.row_cost();
  return PatternAttention::Cost(rows, tokens) + options().heads * static_cast<double>(rows) * row;
}

// --------------------------------------------------------------------------------------------- its options

constexpr const char* kTerms[] = {"dense", "random", "factorized_dense", "factorized_random", "dot_product"};

void ReadTerms(JsonFields& fields, SynthesizerOptions& options) {
  const Json& terms = fields.Raw("terms");
  std::set<std::string> names;
  for (const Json& term : terms) {
    const bool known =
        term.is_string() && std::count(std::begin(kTerms), std::end(kTerms), term.get<std::string>()) > 0;
    if (!known)
      return fields.Fail(Cat("terms: ", Shown(term),
                             " is none of dense, random, factorized_dense, factorized_random, dot_product"));
    options.terms.push_back(term.get<std::string>());
    names.insert(options.terms.back());
  }
  if (!terms.is_array() || names.empty() || names.size() < options.terms.size())
    fields.Fail(Cat("terms: ", Shown(terms), " is not a list of different forms"));
}

void ReadFactors(JsonFields& fields, SynthesizerOptions& options) {
  const Json& factors = fields.Raw("factors");
  const bool pair = factors.is_array() && factors.size() == 2 && factors[0].is_number_integer() &&
                    factors[1].is_number_integer();
  if (pair) {
    options.a = factors[0].get<int64_t>();
    options.c = factors[1].get<int64_t>();
  }
  const bool within =
      options.a >= 1 && options.c >= 1 && options.a <= options.n_max && options.c <= options.n_max;
  if (!within || options.a * options.c != options.n_max)
    fields.Fail(Cat("factors: ", Shown(factors), " are not two whole numbers whose product is n_max ",
                    options.n_max));
}

absl::StatusOr<SynthesizerOptions> ReadOptions(const AttentionSetting& setting, JsonFields& fields) {
  if (setting.cross) fields.Fail("a synthesizer has no keys of another sequence; it is self-attention only");
  SynthesizerOptions options;
  options.heads = options.key_value_heads = setting.num_heads;
  options.head_dim = HeadDim(setting, fields);
  options.scale = 1 / std::sqrt(static_cast<double>(options.head_dim));
  options.patterns = {std::make_shared<BandPattern>(Band{.right = setting.causal ? 0 : kUnlimited})};
  options.n_max = fields.RequiredInt("n_max", 1, kMostPositions);
  if (!fields.Has("form")) fields.Fail("form is missing");
  const std::string form =
      fields.Choice("form", {"dense", "random", "factorized_dense", "factorized_random", "mixture"});
  options.mixture = form == "mixture";
  if (options.mixture) {
    ReadTerms(fields, options);
  } else {
    options.terms = {form};
  }
  if (options.Has("factorized_dense")) ReadFactors(fields, options);
  if (options.Has("factorized_random")) options.rank = fields.RequiredInt("rank", 1, kMostRank);
  RETURN_IF_ERROR(fields.Finish());
  return options;
}

// The names of the products, and in `options` which of them is what.
std::vector<std::string_view> NameProducts(SynthesizerOptions& options) {
  std::vector<std::string_view> names;
  const auto add = [&](std::string_view name, bool there) {
    if (there) names.push_back(name);
    return there ? static_cast<int>(names.size()) - 1 : -1;
  };
  options.v = add("v", true);
  options.dense1 = add("dense1", options.reads_dense());
  options.q = add("q", options.Has("dot_product"));
  options.k = add("k", options.Has("dot_product"));
  return names;
}

// --------------------------------------------------------------------------------------------- its tensors

// The tensors of the forms, [heads, ...] each.
class Loader {
 public:
  Loader(const SynthesizerOptions& options, const WeightScope& scope) : o_(options), scope_(scope) {}

  absl::Status Load();
  MixScores::Parts Parts(int head) const;
  // The term's share of the head's scores.
  double Share(int head, std::string_view term) const;

 private:
  absl::Status Get(const char* name, std::vector<int64_t> shape, Tensor& tensor);
  std::vector<float> OfHead(const Tensor& tensor, int head) const;
  void AddColumns(int head, MixScores::Parts& parts) const;
  void AddFactors(int head, MixScores::Parts& parts) const;

  const SynthesizerOptions& o_;
  const WeightScope& scope_;
  Tensor mix_, dense_, dense_bias_, random_, random1_, random2_, a_, a_bias_, c_, c_bias_;
};

absl::Status Loader::Get(const char* name, std::vector<int64_t> shape, Tensor& tensor) {
  shape.insert(shape.begin(), o_.heads);
  ASSIGN_OR_RETURN(tensor, scope_.Get(name, shape));
  return absl::OkStatus();
}

absl::Status Loader::Load() {
  const int64_t n = o_.n_max, d = o_.head_dim;
  if (o_.mixture) RETURN_IF_ERROR(Get("mix", {static_cast<int64_t>(o_.terms.size())}, mix_));
  if (o_.Has("dense")) {
    RETURN_IF_ERROR(Get("dense2.weight", {n, d}, dense_));
    RETURN_IF_ERROR(Get("dense2.bias", {n}, dense_bias_));
  }
  if (o_.Has("random")) RETURN_IF_ERROR(Get("random", {n, n}, random_));
  if (o_.Has("factorized_random")) {
    RETURN_IF_ERROR(Get("random1", {n, o_.rank}, random1_));
    RETURN_IF_ERROR(Get("random2", {n, o_.rank}, random2_));
  }
  if (o_.Has("factorized_dense")) {
    RETURN_IF_ERROR(Get("factor_a.weight", {o_.a, d}, a_));
    RETURN_IF_ERROR(Get("factor_a.bias", {o_.a}, a_bias_));
    RETURN_IF_ERROR(Get("factor_c.weight", {o_.c, d}, c_));
    RETURN_IF_ERROR(Get("factor_c.bias", {o_.c}, c_bias_));
  }
  return absl::OkStatus();
}

std::vector<float> Loader::OfHead(const Tensor& tensor, int head) const {
  std::vector<float> numbers(tensor.size() / o_.heads);
  ToFloats(tensor, head * static_cast<int64_t>(numbers.size()), static_cast<int64_t>(numbers.size()),
           numbers.data());
  return numbers;
}

double Loader::Share(int head, std::string_view term) const {
  if (!o_.mixture) return 1;
  double sum = 0, own = 0;
  const std::vector<float> mix = OfHead(mix_, head);
  const float largest = *std::max_element(mix.begin(), mix.end());
  for (size_t t = 0; t < mix.size(); ++t) {
    const double weight = std::exp(static_cast<double>(mix[t]) - largest);
    sum += weight;
    if (o_.terms[t] == term) own = weight;
  }
  return own / sum;
}

// Copies rows of `cols` numbers times a factor into wider ones, from their column `first` on.
void Place(const std::vector<float>& from, int64_t cols, double factor, int64_t first, int64_t width,
           float* to) {
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / cols, col = static_cast<int64_t>(i) % cols;
    to[row * width + first + col] = static_cast<float>(from[i] * factor);
  }
}

MixScores::Parts Loader::Parts(int head) const {
  MixScores::Parts parts;
  parts.n_max = o_.n_max;
  parts.given = o_.reads_dense() ? o_.head_dim : 0;
  AddColumns(head, parts);
  AddFactors(head, parts);
  if (!o_.Has("random")) return parts;
  parts.table = OfHead(random_, head);
  for (float& x : parts.table) x *= static_cast<float>(Share(head, "random") * std::numbers::log2e);
  return parts;
}

void Loader::AddColumns(int head, MixScores::Parts& parts) const {
  if (!o_.Has("dense") && !o_.Has("factorized_random")) return;
  const int64_t width = parts.given + 1 + o_.rank;
  parts.columns.resize(o_.n_max * width);
  if (o_.Has("dense")) {
    const double factor = Share(head, "dense") * std::numbers::log2e;
    Place(OfHead(dense_, head), o_.head_dim, factor, 0, width, parts.columns.data());
    Place(OfHead(dense_bias_, head), 1, factor, parts.given, width, parts.columns.data());
  }
  if (!o_.Has("factorized_random")) return;
  parts.constants = o_.rank;
  parts.constant = OfHead(random1_, head);
  const double factor = Share(head, "factorized_random") * std::numbers::log2e;
  Place(OfHead(random2_, head), o_.rank, factor, parts.given + 1, width, parts.columns.data());
}

void Loader::AddFactors(int head, MixScores::Parts& parts) const {
  if (!o_.Has("factorized_dense")) return;
  parts.a = o_.a;
  parts.c = o_.c;
  const int64_t width = parts.given + 1;
  parts.factors.resize((o_.a + o_.c) * width);
  float* c = parts.factors.data() + o_.a * width;
  const double factor = Share(head, "factorized_dense") * std::numbers::log2e;
  Place(OfHead(a_, head), o_.head_dim, 1, 0, width, parts.factors.data());
  Place(OfHead(a_bias_, head), 1, 1, parts.given, width, parts.factors.data());
  Place(OfHead(c_, head), o_.head_dim, factor, 0, width, c);
  Place(OfHead(c_bias_, head), 1, factor, parts.given, width, c);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewSynthesizerAttention(const AttentionSetting& setting,
                                                                   JsonFields& fields,
                                                                   const WeightScope& scope) {
  ASSIGN_OR_RETURN(SynthesizerOptions options, ReadOptions(setting, fields));
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadProducts(scope, NameProducts(options), setting));
  Loader loader(options, scope);
  RETURN_IF_ERROR(loader.Load());
  const DType type = ActivationType(setting.precision);
  std::vector<SynthesizerAttention::Head> heads;
  for (int head = 0; head < setting.num_heads; ++head) {
    heads.push_back(
        {MixScores(type, loader.Parts(head)), static_cast<float>(loader.Share(head, "dot_product"))});
  }
  return std::make_unique<SynthesizerAttention>(setting, options, std::move(heads), std::move(products));
}

}  // namespace heed
