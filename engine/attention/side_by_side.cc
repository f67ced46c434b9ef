// "side_by_side": several attentions of the same rows, whose results lie side by side before the layer's
// output: heads of different kinds in one layer, as Hymba (Dong et al. 2024) and Falcon H1 (TII 2025) have
// softmax beside a state space. Each part is an attention as a layer has it, with its own options (num_heads
// too) and state.
// Options: parts, a list of 2 to 8 attentions: of one sequence, and none that reads labels, or the layer's
// input beside its products. Tensors: parts.I. and what the part has, without its o.
#include "engine/attention/side_by_side.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostParts = 8;

class Run : public AttentionRun {
 public:
  explicit Run(const SideBySideAttention& attention) : attention_(&attention) {
    for (const HeadsOfAKind& kind : attention.kinds()) runs_.push_back(kind.attention->Start());
  }
  Run(const Run& other) : attention_(other.attention_) {
    for (const auto& run : other.runs_) runs_.push_back(run->Clone());
  }
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override;
  int64_t tokens() const override { return runs_.front()->tokens(); }

 private:
  // What the kind has of the layer's products and results, whose first column is given.
  AttentionRows Own(size_t kind, int64_t column, const AttentionRows& rows,
                    std::vector<Rows>& products) const;

  const SideBySideAttention* attention_;
  std::vector<std::unique_ptr<AttentionRun>> runs_;  // by kind
  std::vector<std::vector<AttentionStage>> stages_;  // by kind, of the rows at hand
};

// A stage has the tasks of all kinds, one kind's after another's.
std::vector<AttentionStage> Run::Begin(const AttentionRows& rows) {
  std::vector<AttentionStage> all;
  stages_.clear();
  int64_t column = 0;
  for (size_t kind = 0; kind < runs_.size(); ++kind) {
    std::vector<Rows> products;
    const std::vector<AttentionStage>& own =
        stages_.emplace_back(runs_[kind]->Begin(Own(kind, column, rows, products)));
    column += attention_->kinds()[kind].attention->out_width();
    all.resize(std::max(all.size(), own.size()));
    for (size_t i = 0; i < own.size(); ++i) {
      all[i].tasks += own[i].tasks;
      all[i].cost = std::max(all[i].cost, own[i].cost);
    }
  }
  return all;
}

void Run::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  int64_t column = 0;
  for (size_t kind = 0; kind < runs_.size(); ++kind) {
    const int64_t tasks = stage < std::ssize(stages_[kind]) ? stages_[kind][stage].tasks : 0;
    if (task < tasks) {
      std::vector<Rows> products;
      return runs_[kind]->Do(Own(kind, column, rows, products), stage, task, scratch);
    }
    task -= tasks;
    column += attention_->kinds()[kind].attention->out_width();
  }
}

AttentionRows Run::Own(size_t kind, int64_t column, const AttentionRows& rows,
                       std::vector<Rows>& products) const {
  const HeadsOfAKind& heads = attention_->kinds()[kind];
  AttentionRows own = rows;
  if (rows.products != nullptr) {  // who only asks what there is to do has none yet
    for (const HeadsOfAKind::Columns& columns : heads.products)
      products.push_back(rows.products[columns.product].Cols(columns.first, columns.count));
    own.products = products.data();
  }
  own.out = rows.out.Cols(column, heads.attention->out_width());
  return own;
}

void Run::Archive(StateArchive& archive) {
  for (const auto& run : runs_) {
    if (!archive.status().ok()) return;
    run->Archive(archive);
    if (archive.restoring() && archive.status().ok() && run->tokens() != tokens())
      archive.Fail(Invalid("the state's heads have ", tokens(), " and ", run->tokens(), " tokens"));
  }
}

}  // namespace

SideBySideAttention::SideBySideAttention(std::vector<HeadsOfAKind> kinds, std::vector<Product> products)
    : kinds_(std::move(kinds)) {
  products_ = std::move(products);
  for (const HeadsOfAKind& kind : kinds_) {
    out_width_ += kind.attention->out_width();
    decode_ = std::max(decode_, kind.attention->decode());
    data_dependent_ = data_dependent_ || kind.attention->data_dependent();
    constant_bytes_ += kind.attention->constant_bytes();
    const int64_t most = kind.attention->max_tokens();
    if (most > 0) max_tokens_ = max_tokens_ == 0 ? most : std::min(max_tokens_, most);
  }
}

std::unique_ptr<AttentionRun> SideBySideAttention::Start() const { return std::make_unique<Run>(*this); }

int64_t SideBySideAttention::StateBytes(int64_t tokens) const {
  int64_t sum = 0;
  for (const HeadsOfAKind& kind : kinds_) sum += kind.attention->StateBytes(tokens);
  return sum;
}

int64_t SideBySideAttention::PassBytes() const {
  int64_t sum = 0;
  for (const HeadsOfAKind& kind : kinds_) sum += kind.attention->PassBytes();
  return sum;
}

double SideBySideAttention::Cost(int64_t rows, int64_t tokens) const {
  double sum = 0;
  for (const HeadsOfAKind& kind : kinds_) sum += kind.attention->Cost(rows, tokens);
  return sum;
}

int64_t SideBySideAttention::ScratchBytes() const {
  int64_t most = 0;
  for (const HeadsOfAKind& kind : kinds_) most = std::max(most, kind.attention->ScratchBytes());
  return most;
}

namespace {

absl::StatusOr<std::unique_ptr<Attention>> NewPart(const AttentionSetting& layer, int i, const Json& options,
                                                   const WeightScope& scope) {
  AttentionSetting setting = layer;
  setting.where = Cat(layer.where, ".parts[", i, "]");
  JsonFields fields(options, setting.where);
  setting.num_heads = static_cast<int>(fields.Int("num_heads", layer.num_heads, 1, layer.width));
  ASSIGN_OR_RETURN(std::unique_ptr<Attention> part, NewAttention(setting, fields, scope / Cat("parts.", i)));
  if (part->labels().kind != RowLabel::kNone || part->reads_input() || part->gated() > 0 ||
      part->result() != nullptr)
    return Invalid(
        setting.where,
        ": this attention reads more than its products, or changes what they give: it stands alone");
  return part;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewSideBySideAttention(const AttentionSetting& setting,
                                                                  JsonFields& fields,
                                                                  const WeightScope& scope) {
  const Json& parts = fields.Raw("parts");
  if (!parts.is_array() || std::ssize(parts) < 2 || std::ssize(parts) > kMostParts)
    fields.Fail(Cat("parts: ", Shown(parts), " is no list of 2 to ", kMostParts, " attentions"));
  if (setting.cross) fields.Fail("parts are of one sequence: this attention reads no source");
  RETURN_IF_ERROR(fields.Finish());
  std::vector<HeadsOfAKind> kinds;
  std::vector<Product> products;
  for (int i = 0; i < std::ssize(parts); ++i) {
    HeadsOfAKind& kind = kinds.emplace_back();
    ASSIGN_OR_RETURN(kind.attention, NewPart(setting, i, parts[i], scope));
    const int first = static_cast<int>(products.size());
    for (const Product& product : kind.attention->products()) {
      kind.products.push_back({static_cast<int>(products.size()), 0, product.weight.dim(0)});
      products.push_back(product);
      products.back().name = Cat("parts.", i, ".", product.name);
      if (product.of) products.back().of = first + *product.of;
    }
    kind.attention->DropNumbers();
  }
  return std::make_unique<SideBySideAttention>(std::move(kinds), std::move(products));
}

}  // namespace heed
