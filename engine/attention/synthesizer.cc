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
// factorized_random; terms of a mixture: different forms, dot_product among them.
// Of the past only the values are remembered, and the keys with dot_product.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "engine/attention/attention.h"
#include "engine/attention/key_value_pages.h"
#include "engine/attention/mix_core.h"
#include "engine/attention/softmax_core.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostPositions = 1 << 20;

struct SynthesizerOptions {
  int64_t heads = 1, head_dim = 0;
  bool causal = false;
  int64_t n_max = 0, a = 0, c = 0, rank = 0;
  std::vector<std::string> terms;  // of one form alone, that form
  bool mixture = false;

  bool Has(std::string_view term) const { return std::find(terms.begin(), terms.end(), term) != terms.end(); }
  bool reads_dense() const { return Has("dense") || Has("factorized_dense"); }
};

// ------------------------------------------------------------------------------------------- the attention

class SynthesizerAttention : public Attention {
 public:
  struct Head {
    MixScores scores;
    std::unique_ptr<SoftmaxCore> core;
  };
  SynthesizerAttention(const AttentionSetting& setting, SynthesizerOptions options, std::vector<Head> heads,
                       std::vector<Product> products);

  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override;
  double Cost(int64_t n) const override;
  int64_t ScratchBytes(int64_t) const override {
    return MixTile::ScratchBytes(heads_.front().scores) + heads_.front().core->ScratchBytes();
  }

  const SynthesizerOptions& options() const { return options_; }
  const Head& head(int i) const { return heads_[i]; }
  bool has_keys() const { return options_.Has("dot_product"); }
  DType type() const { return heads_.front().core->type(); }
  // Of one head: what the product `name` gave, or rows without columns if there is no such product.
  Rows Given(const AttentionRows& rows, std::string_view name, int head) const;

 private:
  SynthesizerOptions options_;
  std::vector<Head> heads_;
};

class Run : public AttentionRun {
 public:
  explicit Run(const SynthesizerAttention& attention);
  void Extend(const AttentionRows& rows, int task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override;
  int64_t tokens() const override { return heads_.front().end(); }

 private:
  void AttendTile(const AttentionRows& rows, int task, Range tile, Scratch& scratch) const;

  const SynthesizerAttention* attention_;
  std::vector<KeyValuePages> heads_;
};

Run::Run(const SynthesizerAttention& attention) : attention_(&attention) {
  const SynthesizerOptions& o = attention.options();
  heads_ = std::vector<KeyValuePages>(o.heads, {attention.type(), o.head_dim, attention.has_keys()});
}

void Run::Extend(const AttentionRows& rows, int task, Scratch& scratch) {
  CHECK(rows.first + rows.count <= attention_->max_tokens());
  const Rows values = attention_->Given(rows, "v", task);
  heads_[task].Append(attention_->has_keys() ? attention_->Given(rows, "k", task) : values, values);
  for (int64_t row = 0; row < rows.count; row += SoftmaxCore::kTile) {
    const ScratchFrame frame(scratch);
    AttendTile(rows, task, {row, std::min<int64_t>(row + SoftmaxCore::kTile, rows.count)}, scratch);
  }
}

void Run::AttendTile(const AttentionRows& rows, int task, Range tile, Scratch& scratch) const {
  const SynthesizerOptions& o = attention_->options();
  const int64_t count = tile.end - tile.begin;
  const SynthesizerAttention::Head& head = attention_->head(task);
  const MixTile scores(head.scores, attention_->Given(rows, "dense1", task).Slice(tile.begin, count),
                       rows.first + tile.begin, scratch);
  SoftmaxQueries queries;
  queries.q = attention_->Given(rows, "q", task).Slice(tile.begin, count);
  queries.out = rows.out.Slice(tile.begin, count).Cols(task * o.head_dim, o.head_dim);
  queries.first = rows.first + tile.begin;
  KeySource source{&heads_[task]};
  source.bias = &scores;
  if (o.causal) source.right = 0;
  head.core->Attend(queries, {&source, 1}, scratch);
}

void Run::Archive(StateArchive& archive) {
  int64_t tokens = this->tokens();
  archive.Number(tokens, 0, attention_->max_tokens());
  for (KeyValuePages& head : heads_) head.Archive(archive, 0, tokens);
}

SynthesizerAttention::SynthesizerAttention(const AttentionSetting& setting, SynthesizerOptions options,
                                           std::vector<Head> heads, std::vector<Product> products)
    : options_(std::move(options)), heads_(std::move(heads)) {
  products_ = std::move(products);
  out_width_ = setting.width;
  tasks_ = setting.num_heads;
  decode_ = options_.causal ? DecodeClass::kExact : DecodeClass::kNone;
  max_tokens_ = options_.n_max;
  for (const Head& head : heads_) constant_bytes_ += head.scores.bytes();
}

std::unique_ptr<AttentionRun> SynthesizerAttention::Start() const { return std::make_unique<Run>(*this); }

Rows SynthesizerAttention::Given(const AttentionRows& rows, std::string_view name, int head) const {
  for (size_t p = 0; p < products_.size(); ++p) {
    if (products_[p].name == name)
      return rows.products[p].Slice(0, rows.count).Cols(head * options_.head_dim, options_.head_dim);
  }
  return {type(), nullptr, rows.count, 0, 0};
}

int64_t SynthesizerAttention::StateBytes(int64_t tokens) const {
  return sizeof(int64_t) +
         options_.heads * KeyValuePages::Bytes(type(), options_.head_dim, 0, tokens, has_keys());
}

// Causal, half of the tiles on the diagonal is computed and cut.
double SynthesizerAttention::Cost(int64_t n) const {
  const double length = n,
               pairs = length *
                       (options_.causal ? (length + std::min<double>(n, SoftmaxCore::kTile)) / 2 : length);
  const MixScores& scores = heads_.front().scores;
  const double pair = scores.score_cost() + (has_keys() ? 2 : 1) * options_.head_dim;
  return options_.heads * (pairs * pair + length * scores.row_cost());
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
  options.heads = setting.num_heads;
  options.head_dim = HeadDim(setting, fields);
  options.causal = setting.causal;
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
  if (options.Has("factorized_random")) options.rank = fields.RequiredInt("rank", 1, options.n_max);
  RETURN_IF_ERROR(fields.Finish());
  return options;
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
  std::vector<std::string_view> names = {"v"};
  if (options.reads_dense()) names.push_back("dense1");
  if (options.Has("dot_product")) names.insert(names.end(), {"q", "k"});
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadProducts(scope, names, setting));
  Loader loader(options, scope);
  RETURN_IF_ERROR(loader.Load());
  const DType type = ActivationType(setting.precision);
  std::vector<SynthesizerAttention::Head> heads;
  for (int head = 0; head < setting.num_heads; ++head) {
    const double scale = loader.Share(head, "dot_product") / std::sqrt(static_cast<double>(options.head_dim));
    heads.push_back(
        {MixScores(type, loader.Parts(head)), std::make_unique<SoftmaxCore>(type, options.head_dim, scale)});
  }
  return std::make_unique<SynthesizerAttention>(setting, std::move(options), std::move(heads),
                                                std::move(products));
}

}  // namespace heed
