#include "engine/attention/etc.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "engine/attention/key_value_pages.h"
#include "engine/attention/pattern.h"
#include "engine/attention/pattern_attention.h"
#include "engine/attention/softmax_core.h"
#include "engine/base/round.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostDistance = 1 << 12;  // a task holds so many products to either side, of each row
constexpr int64_t kMostTokens = int64_t{1} << 40;
// Rows of a task, and of one in which each row sees a few of many keys: those that none of them sees are left
// out.
constexpr int64_t kTileRows = SoftmaxCore::kTile, kHardTileRows = 16;
// From one row's biases to the next one's, no power of two.
constexpr int64_t kBiasPitch = kKeyBlock + 16;

struct Options {
  EtcStream stream = EtcStream::kLong;
  int heads = 1;
  int64_t head_dim = 0;
  int64_t radius = 0;
  int64_t distance = 0;  // 0: no labels
  bool shared = true;
  bool hard_l2g = false, hard_g2l = false;

  bool global() const { return stream == EtcStream::kGlobal; }
  // Whether a row sees of the other stream only what belongs to it, or it to.
  bool hard() const { return global() ? hard_g2l : hard_l2g; }
  Band band() const { return global() ? Band{} : Band{radius, radius}; }
};

// The vectors and numbers of labels, a product for each head. Its columns are the distances -reach .. reach
// and then "does not belong" and "belongs", times what scores are.
class LabelTable {
 public:
  LabelTable() = default;
  // [labels, heads, head_dim] and [labels, heads] as the file has them. Distances beyond `reach` never come
  // up.
  LabelTable(const std::vector<float>& vectors, const std::vector<float>& biases, const Options& options,
             double scale, int64_t reach, Precision precision);

  bool empty() const { return heads_.empty(); }
  int64_t reach() const { return reach_; }
  int64_t columns() const { return 2 * reach_ + 3; }
  int64_t apart_column() const { return 2 * reach_ + 1; }
  int64_t member_column() const { return 2 * reach_ + 2; }
  const PackedWeights& OfHead(int head) const { return heads_[head]; }
  int64_t bytes() const;

 private:
  int64_t reach_ = 0;
  std::vector<PackedWeights> heads_;
};

LabelTable::LabelTable(const std::vector<float>& vectors, const std::vector<float>& biases,
                       const Options& options, double scale, int64_t reach, Precision precision)
    : reach_(reach) {
  const int64_t dim = options.head_dim;
  const auto factor = static_cast<float>(scale * std::numbers::log2e);
  const auto label_of = [&](int64_t column) {
    const int64_t distance = column - reach_;
    if (column > 2 * reach_) return 2 * options.distance + column - 2 * reach_;
    return distance >= 0 ? distance : options.distance - distance;
  };
  std::vector<float> weight(columns() * dim), bias(columns());
  for (int head = 0; head < options.heads; ++head) {
    for (int64_t column = 0; column < columns(); ++column) {
      const int64_t place = label_of(column) * options.heads + head;
      for (int64_t c = 0; c < dim; ++c) weight[column * dim + c] = factor * vectors[place * dim + c];
      bias[column] = factor * biases[place];
    }
    heads_.push_back(PackedWeights::Pack(
        {{{.shape = {columns(), dim}, .data = weight.data()}, {.shape = {columns()}, .data = bias.data()}}},
        precision));
  }
}

int64_t LabelTable::bytes() const {
  int64_t sum = 0;
  for (const PackedWeights& head : heads_) sum += head.bytes();
  return sum;
}

class EtcAttention : public Attention {
 public:
  EtcAttention(const AttentionSetting& setting, const Options& options, std::vector<Product> products,
               LabelTable labels);
  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override;
  int64_t OwnStateBytes(int64_t rows) const override;
  double Cost(int64_t rows, int64_t tokens) const override;
  int64_t ScratchBytes() const override;

  const Options& options() const { return options_; }
  const SoftmaxCore& core() const { return core_; }
  const LabelTable& table() const { return table_; }
  // Of all heads.
  int64_t PageBytes(int64_t tokens) const {
    return options_.heads * KeyValuePages::Bytes(core_.type(), options_.head_dim, 0, tokens);
  }
  // Which of the other stream's rows belong to a row is looked up.
  bool looks_up_members() const { return options_.global() && options_.hard(); }

 private:
  Options options_;
  SoftmaxCore core_;
  LabelTable table_;
};

// ---------------------------------------------------------------------------------------- what labels add

// Of a tile of rows, one head: the products with the label table, and where a block's biases stand.
class Labels {
 public:
  Labels(const LabelTable& table, int head, const Rows& q, Scratch& scratch);
  static int64_t ScratchBytes(const LabelTable& table, int64_t head_dim, DType type);

  bool none() const { return table_.empty(); }
  float Of(int64_t row, int64_t column) const { return none() ? 0 : scores_.row(row)[column]; }
  const float* Distances(int64_t row) const { return scores_.row(row); }
  float* Biases(size_t row) const { return biases_ + static_cast<int64_t>(row) * kBiasPitch; }
  const LabelTable& table() const { return table_; }

 private:
  const LabelTable& table_;
  Matrix<float> scores_;
  float* biases_;
};

// Behind an odd head_dim there is a zero.
Labels::Labels(const LabelTable& table, int head, const Rows& q, Scratch& scratch)
    : table_(table), biases_(scratch.Take<float>(q.rows * kBiasPitch)) {
  if (none()) return;
  const int64_t pitch = RoundUp(q.cols, 16), bytes = RoundUp(q.rows, 8) * pitch * SizeOf(q.dtype);
  const Rows copy{q.dtype, scratch.Take<char>(bytes), q.rows, q.cols, pitch};
  std::memset(copy.data, 0, bytes);
  for (int64_t r = 0; r < q.rows; ++r) std::memcpy(copy.at(r), q.at(r), q.cols * SizeOf(q.dtype));
  const int64_t columns = table.columns(), stride = RoundUp(columns, 16);
  scores_ = {scratch.Take<float>(q.rows * stride), q.rows, columns, stride};
  Team alone;
  const ScratchFrame frame(scratch);
  Gemm(alone, {copy}, table.OfHead(head), {.out = {DType::kF32, scores_.data, q.rows, columns, stride}},
       scratch);
}

int64_t Labels::ScratchBytes(const LabelTable& table, int64_t head_dim, DType type) {
  const int64_t biases = Scratch::Piece(kTileRows * kBiasPitch * SizeOf(DType::kF32));
  if (table.empty()) return biases;
  return biases + Scratch::Piece(kTileRows * RoundUp(head_dim, 16) * SizeOf(type)) +
         Scratch::Piece(kTileRows * RoundUp(table.columns(), 16) * SizeOf(DType::kF32)) + GemmScratchBytes();
}

constexpr std::array<float, kKeyBlock> kNoBiases{};

void AddToAll(float bias, SoftmaxRow& row) {
  row.bias = kNoBiases.data();
  row.bias_offset = bias;
}

// On the scores with the stream's own keys: by the distance.
class DistanceLabels : public ScoreBias {
 public:
  explicit DistanceLabels(const Labels& labels) : labels_(labels) {}

  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override {
    const int64_t reach = labels_.table().reach();
    for (size_t r = 0; r < rows.size(); ++r) {
      SoftmaxRow& row = rows[r];
      const float* scores = labels_.Distances(block.first_row + static_cast<int64_t>(r));
      const int64_t itself = block.positions[r] - block.base;  // the column of the key at its position
      if (row.end <= itself - reach + 1) {
        AddToAll(scores[0], row);
      } else if (row.begin >= itself + reach) {
        AddToAll(scores[2 * reach], row);
      } else {
        Spread(scores, reach, itself, row, labels_.Biases(r));
      }
    }
  }

 private:
  // Beyond `reach` stands what is at the ends of it.
  static void Spread(const float* scores, int64_t reach, int64_t itself, SoftmaxRow& row, float* biases) {
    const auto column = [&](int64_t c) { return std::clamp<int64_t>(c, row.begin, row.end); };
    const int64_t begin = column(itself - reach), end = column(itself + reach + 1);
    std::fill(biases + row.begin, biases + begin, scores[0]);
    std::copy_n(scores + (begin - itself + reach), end - begin, biases + begin);
    std::fill(biases + end, biases + row.end, scores[2 * reach]);
    row.bias = biases;
    row.bias_offset = 0;
  }

  const Labels& labels_;
};

// Of long rows, on the scores with global keys: whether the row belongs to the key.
class BelongsToKey : public ScoreBias {
 public:
  // `members`: the rows' labels, null if no row belongs to any.
  BelongsToKey(const Labels& labels, const int32_t* members) : labels_(labels), members_(members) {}

  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override {
    const LabelTable& table = labels_.table();
    for (size_t r = 0; r < rows.size(); ++r) {
      SoftmaxRow& row = rows[r];
      const int64_t of_tile = block.first_row + static_cast<int64_t>(r);
      const float apart = labels_.Of(of_tile, table.apart_column());
      const int64_t key = members_ == nullptr ? -1 : members_[block.positions[r]] - 1 - block.base;
      AddToAll(apart, row);
      if (key < row.begin || key >= row.end) continue;
      float* biases = labels_.Biases(r);
      std::fill(biases + row.begin, biases + row.end, apart);
      biases[key] = labels_.Of(of_tile, table.member_column());
      row.bias = biases;
      row.bias_offset = 0;
    }
  }

 private:
  const Labels& labels_;
  const int32_t* members_;
};

// Of global rows, on the scores with long keys: whether the key belongs to the row. Hard: others are masked.
class KeyBelongs : public ScoreBias {
 public:
  // `members`: the keys' labels, null if no key belongs to any row.
  KeyBelongs(const Labels& labels, const int32_t* members, bool hard)
      : labels_(labels), members_(members), hard_(hard) {}

  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override {
    const LabelTable& table = labels_.table();
    for (size_t r = 0; r < rows.size(); ++r) {
      const int64_t of_tile = block.first_row + static_cast<int64_t>(r);
      const float apart = hard_ ? kMasked : labels_.Of(of_tile, table.apart_column());
      if (members_ == nullptr) {
        AddToAll(apart, rows[r]);
        continue;
      }
      const float member = labels_.Of(of_tile, table.member_column());
      const auto label = static_cast<int32_t>(block.positions[r] + 1);
      float* biases = labels_.Biases(r);
      for (int c = rows[r].begin; c < rows[r].end; ++c)
        biases[c] = members_[block.base + c] == label ? member : apart;
      rows[r].bias = biases;
      rows[r].bias_offset = 0;
    }
  }

 private:
  const Labels& labels_;
  const int32_t* members_;
  bool hard_;
};

// ---------------------------------------------------------------------------------------- what a run holds

class EtcRun : public AttentionRun {
 public:
  explicit EtcRun(const EtcAttention& attention)
      : attention_(&attention),
        own_(attention.options().heads, KeyValuePages(attention.core().type(), attention.options().head_dim)),
        source_(own_) {}

  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<EtcRun>(*this); }
  void Archive(StateArchive& archive) override;
  int64_t tokens() const override { return source_tokens_; }

 private:
  using Pages = std::vector<KeyValuePages>;  // of each head

  const Options& options() const { return attention_->options(); }
  AttentionStage Taking(int64_t rows) const;
  void FindMembers(const AttentionRows& rows);
  void Take(const AttentionRows& rows, int first_product, int64_t count, int64_t task, Pages& pages) const;
  void Attend(const AttentionRows& rows, int head, Range tile, Scratch& scratch) const;
  std::function<Range(int64_t)> SeesOfSource(const AttentionRows& rows) const;

  const EtcAttention* attention_;
  Pages own_, source_;
  int64_t own_tokens_ = 0, source_tokens_ = 0;
  std::vector<Range> members_;  // of each row, where the rows of the source lie that belong to it
  int64_t tile_rows_ = 1;
};

AttentionStage EtcRun::Taking(int64_t rows) const {
  return {options().heads * Quotient(rows, kTakenRows),
          kMoved * 2 * static_cast<double>(std::min(rows, kTakenRows) * options().head_dim)};
}

std::vector<AttentionStage> EtcRun::Begin(const AttentionRows& rows) {
  if (rows.count == 0) {
    CHECK(source_tokens_ == 0 && rows.source_count > 0);
    source_tokens_ = rows.source_count;
    for (KeyValuePages& head : source_) head.Grow(source_tokens_);
    return {Taking(source_tokens_)};
  }
  CHECK(own_tokens_ == 0 && source_tokens_ > 0 && rows.first == 0);  // an encoder's rows come whole
  own_tokens_ = rows.count;
  for (KeyValuePages& head : own_) head.Grow(own_tokens_);
  if (attention_->looks_up_members()) FindMembers(rows);
  const double row_cost =
      attention_->Cost(own_tokens_, source_tokens_) / static_cast<double>(own_tokens_ * options().heads);
  tile_rows_ = std::clamp<int64_t>(static_cast<int64_t>(kTaskCost / row_cost), 1,
                                   attention_->looks_up_members() ? kHardTileRows : kTileRows);
  return {Taking(own_tokens_),
          {options().heads * Quotient(own_tokens_, tile_rows_),
           row_cost * static_cast<double>(std::min(tile_rows_, own_tokens_))}};
}

// From the first to the last of them: what lies between is masked.
void EtcRun::FindMembers(const AttentionRows& rows) {
  members_.assign(own_tokens_, {source_tokens_, 0});
  for (int64_t i = 0; i < source_tokens_ && rows.source_labels != nullptr; ++i) {
    const int32_t label = rows.source_labels[i];
    if (label == 0) continue;
    Range& members = members_[label - 1];
    members = {std::min(members.begin, i), i + 1};
  }
}

void EtcRun::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  constexpr int kOwnKeys = 1, kSourceKeys = 3;
  if (rows.count == 0) return Take(rows, kSourceKeys, source_tokens_, task, source_);
  if (stage == 0) return Take(rows, kOwnKeys, own_tokens_, task, own_);
  const int64_t tiles = Quotient(own_tokens_, tile_rows_), row = task % tiles * tile_rows_;
  Attend(rows, static_cast<int>(task / tiles), {row, std::min(own_tokens_, row + tile_rows_)}, scratch);
}

// A cut of one head: whole pages.
void EtcRun::Take(const AttentionRows& rows, int first_product, int64_t count, int64_t task,
                  Pages& pages) const {
  const int64_t cuts = Quotient(count, kTakenRows), row = task % cuts * kTakenRows, head = task / cuts,
                end = std::min(count, row + kTakenRows);
  const auto of_cut = [&](const Rows& all) {
    return all.Slice(row, end - row).Cols(head * options().head_dim, options().head_dim);
  };
  pages[head].Write(row, of_cut(rows.products[first_product]), of_cut(rows.products[first_product + 1]));
}

std::function<Range(int64_t)> EtcRun::SeesOfSource(const AttentionRows& rows) const {
  if (!options().hard()) return Band{};
  if (options().global()) return [this](int64_t position) { return members_[position]; };
  return [labels = rows.labels](int64_t position) {
    const int64_t label = labels == nullptr ? 0 : labels[position];
    return label == 0 ? Range{} : Range{label - 1, label};
  };
}

void EtcRun::Attend(const AttentionRows& rows, int head, Range tile, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const auto of_tile = [&](const Rows& all) {
    return all.Slice(tile.begin, tile.size()).Cols(head * options().head_dim, options().head_dim);
  };
  SoftmaxQueries queries;
  queries.q = of_tile(rows.products[0]);
  queries.out = of_tile(rows.out);
  queries.first = tile.begin;
  const Labels labels(attention_->table(), head, queries.q, scratch);
  const DistanceLabels distances(labels);
  const BelongsToKey belongs(labels, rows.labels);
  const KeyBelongs key_belongs(labels, rows.source_labels, options().hard());
  KeySource own{.pages = &own_[head], .sees = options().band()};
  KeySource source{.pages = &source_[head], .sees = SeesOfSource(rows), .continues = true};
  if (!labels.none()) own.bias = &distances;
  if (!labels.none()) source.bias = &belongs;
  if (options().global() && (options().hard() || !labels.none())) source.bias = &key_belongs;
  attention_->core().Attend(queries, std::array{own, source}, scratch);
}

void EtcRun::Archive(StateArchive& archive) {
  archive.Number(source_tokens_, 0, kMostTokens);
  archive.Number(own_tokens_, 0, kMostTokens);
  if (archive.measuring()) archive.Bytes(members_.data(), std::ssize(members_) * sizeof(Range));
  for (KeyValuePages& head : source_) head.Archive(archive, 0, source_tokens_);
  for (KeyValuePages& head : own_) head.Archive(archive, 0, own_tokens_);
}

// ---------------------------------------------------------------------------------------- what is shared

EtcAttention::EtcAttention(const AttentionSetting& setting, const Options& options,
                           std::vector<Product> products, LabelTable labels)
    : options_(options),
      core_(ActivationType(setting.precision), options.head_dim,
            1 / std::sqrt(static_cast<double>(options.head_dim))),
      table_(std::move(labels)) {
  products_ = std::move(products);
  out_width_ = setting.width;
  decode_ = DecodeClass::kNone;
  labels_.kind = RowLabel::kMember;
  also_own_rows_ = true;
  constant_bytes_ = table_.bytes();
}

std::unique_ptr<AttentionRun> EtcAttention::Start() const { return std::make_unique<EtcRun>(*this); }

int64_t EtcAttention::StateBytes(int64_t tokens) const {
  return 2 * static_cast<int64_t>(sizeof(int64_t)) + PageBytes(tokens);
}

int64_t EtcAttention::OwnStateBytes(int64_t rows) const {
  return PageBytes(rows) + (looks_up_members() ? rows * static_cast<int64_t>(sizeof(Range)) : 0);
}

// Hard: a long row sees one global one at most, and those of a tile of global rows what any of them sees.
double EtcAttention::Cost(int64_t rows, int64_t tokens) const {
  const int64_t hard = options_.global() ? std::min(rows, kHardTileRows) * tokens : rows;
  const double pairs = BandPattern(options_.band()).Pairs(rows, rows) +
                       static_cast<double>(options_.hard() ? std::min(hard, rows * tokens) : rows * tokens);
  const double labels = table_.empty() ? 0 : static_cast<double>(rows * table_.columns());
  return (2 * pairs + labels) * static_cast<double>(options_.head_dim * options_.heads);
}

int64_t EtcAttention::ScratchBytes() const {
  return Labels::ScratchBytes(table_, options_.head_dim, core_.type()) + core_.ScratchBytes();
}

absl::StatusOr<Options> ReadOptions(const AttentionSetting& setting, EtcStream stream, JsonFields& fields) {
  Options options{.stream = stream, .heads = setting.num_heads};
  fields.Choice("type", {"etc"});
  options.radius = fields.RequiredInt("radius", 0, kMostSpan);
  options.distance = fields.Int("max_distance", 0, 0, kMostDistance);
  options.shared = fields.Bool("share_projections", true);
  options.hard_l2g = fields.Bool("hard_l2g", false);
  options.hard_g2l = fields.Bool("hard_g2l", false);
  options.head_dim = HeadDim(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  return options;
}

// q, k and v of the rows, then k and v of the source.
absl::StatusOr<std::vector<Product>> LoadProductsOf(const AttentionSetting& setting, const Options& options,
                                                    const WeightScope& scope) {
  const bool apart = options.global() && !options.shared;
  ASSIGN_OR_RETURN(std::vector<Product> products,
                   LoadProducts(scope,
                                apart ? std::vector<std::string_view>{"q_global", "k_g2g", "v_g2g"}
                                      : std::vector<std::string_view>{"q", "k", "v"},
                                setting));
  const std::string edge = options.shared ? "" : options.global() ? "_g2l" : "_l2g";
  for (int i : {1, 2}) {
    Product product = products[i];
    if (options.shared) {
      product.lent = i;
    } else {
      ASSIGN_OR_RETURN(product,
                       LoadProduct(scope, (i == 1 ? "k" : "v") + edge, setting.width, setting.width));
    }
    product.of_source = true;
    products.push_back(std::move(product));
  }
  return products;
}

// Of the file, as many labels as there are or more.
absl::StatusOr<std::vector<float>> LoadLabels(const std::string& name, const WeightScope& scope,
                                              std::vector<int64_t> shape, int64_t labels) {
  ASSIGN_OR_RETURN(const Tensor tensor, scope.Get(name, shape));
  if (tensor.dim(0) >= labels) return ToFloats(tensor);
  return Invalid(scope.Path(name), ": ", tensor.dim(0), " labels; max_distance needs at least ", labels);
}

absl::StatusOr<LabelTable> LoadTable(const Options& options, DType type, const WeightScope& scope) {
  if (options.distance == 0) return LabelTable();
  const std::string suffix = options.global() ? "_global" : "";
  const int64_t labels = 2 * options.distance + 3;
  ASSIGN_OR_RETURN(
      const std::vector<float> vectors,
      LoadLabels("relative_embedding" + suffix, scope, {-1, options.heads, options.head_dim}, labels));
  ASSIGN_OR_RETURN(const std::vector<float> biases,
                   LoadLabels("relative_bias" + suffix, scope, {-1, options.heads}, labels));
  const int64_t reach = options.global() ? options.distance : std::min(options.distance, options.radius);
  return LabelTable(vectors, biases, options, 1 / std::sqrt(static_cast<double>(options.head_dim)), reach,
                    type == DType::kBf16 ? Precision::kBf16 : Precision::kF32);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewEtcAttention(const AttentionSetting& setting, EtcStream stream,
                                                           JsonFields& fields, const WeightScope& scope) {
  CHECK(setting.cross);
  ASSIGN_OR_RETURN(const Options options, ReadOptions(setting, stream, fields));
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadProductsOf(setting, options, scope));
  ASSIGN_OR_RETURN(LabelTable table, LoadTable(options, ActivationType(setting.precision), scope));
  return std::make_unique<EtcAttention>(setting, options, std::move(products), std::move(table));
}

}  // namespace heed
