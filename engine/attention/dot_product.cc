#include "engine/attention/dot_product.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "engine/attention/key_value_pages.h"
#include "engine/attention/softmax_core.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kPage = KeyValuePages::kPage;
constexpr int64_t kMostTokens = int64_t{1} << 40;

class DotProductAttention : public Attention {
 public:
  DotProductAttention(const AttentionSetting& setting, DotProductOptions options,
                      std::vector<Product> products);

  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override;
  double Cost(int64_t n) const override;
  int64_t ScratchBytes(int64_t rows) const override;

  const DotProductOptions& options() const { return options_; }
  const SoftmaxCore& core() const { return core_; }
  int group() const { return options_.heads / options_.key_value_heads; }
  // The first position that rows after `tokens` others still look at, cut to pages.
  int64_t KeptFrom(int64_t tokens) const;

 private:
  DotProductOptions options_;
  SoftmaxCore core_;
};

class Run : public AttentionRun {
 public:
  explicit Run(const DotProductAttention& attention);
  void Extend(const AttentionRows& rows, int task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override;
  int64_t tokens() const override { return heads_.front().all.end(); }

 private:
  // One key-value head's.
  struct Memory {
    KeyValuePages all;    // of the window
    KeyValuePages sinks;  // the first of them again
  };
  void Remember(const AttentionRows& rows, int task, Scratch& scratch);
  void Attend(const AttentionRows& rows, int task, Scratch& scratch) const;

  const DotProductAttention* attention_;
  std::vector<Memory> heads_;
};

Run::Run(const DotProductAttention& attention) : attention_(&attention) {
  const KeyValuePages empty(attention.core().type(), attention.options().head_dim);
  heads_ = std::vector<Memory>(attention.options().key_value_heads, {empty, empty});
}

void Run::Extend(const AttentionRows& rows, int task, Scratch& scratch) {
  Remember(rows, task, scratch);
  if (rows.count > 0) Attend(rows, task, scratch);
  KeyValuePages& all = heads_[task].all;
  all.DropBefore(attention_->KeptFrom(all.end()));
}

// Keys and values into the pages, a page's worth at a time: turned on the way, while they are hot.
void Run::Remember(const AttentionRows& rows, int task, Scratch& scratch) {
  const DotProductOptions& o = attention_->options();
  Memory& memory = heads_[task];
  const Rows keys = rows.products[1].Cols(task * o.head_dim, o.head_dim);
  const Rows values = rows.products[2].Cols(task * o.head_dim, o.head_dim);
  const Rows turned{keys.dtype, scratch.Take<char>(kPage * o.head_dim * SizeOf(keys.dtype)), kPage,
                    o.head_dim, o.head_dim};
  int64_t* positions = scratch.Take<int64_t>(kPage);
  for (int64_t row = 0; row < rows.source_count; row += kPage) {
    const int64_t count = std::min(kPage, rows.source_count - row);
    Rows k = keys.Slice(row, count);
    const Rows v = values.Slice(row, count);
    if (o.rotary) {
      Convert(k, turned.Slice(0, count));
      k = turned.Slice(0, count);
      std::iota(positions, positions + count, memory.all.end());
      o.rotary->Apply(k, 1, {positions, static_cast<size_t>(count)});
    }
    memory.all.Append(k, v);
    const int64_t sinks = std::min(count, o.sinks - memory.sinks.end());
    memory.sinks.Append(k.Slice(0, sinks), v.Slice(0, sinks));
  }
}

void Run::Attend(const AttentionRows& rows, int task, Scratch& scratch) const {
  const DotProductOptions& o = attention_->options();
  const int group = attention_->group();
  const int64_t first_column = task * group * o.head_dim;
  SoftmaxQueries queries;
  queries.q = rows.products[0].Slice(0, rows.count).Cols(first_column, group * o.head_dim);
  queries.out = rows.out.Cols(first_column, group * o.head_dim);
  queries.heads = group;
  queries.first_head = task * group;
  queries.first = rows.first;
  queries.rotary = o.rotary ? &*o.rotary : nullptr;

  const Memory& memory = heads_[task];
  KeySource all{&memory.all}, sinks{&memory.sinks};
  all.bias = sinks.bias = o.bias ? &*o.bias : nullptr;
  if (o.causal) all.right = 0;
  if (o.window > 0) {
    all.left = o.window - 1;
    sinks.right = -o.window;  // what the window has left behind
    if (!o.sinks_by_text) sinks.last_place = o.sinks + o.window - 1;
  }
  const KeySource sources[] = {all, sinks};
  attention_->core().Attend(queries, std::span(sources, o.sinks > 0 ? 2 : 1), scratch);
}

void Run::Archive(StateArchive& archive) {
  int64_t tokens = this->tokens();
  archive.Number(tokens, 0, kMostTokens);
  for (Memory& memory : heads_) {
    memory.all.Archive(archive, attention_->KeptFrom(tokens), tokens);
    memory.sinks.Archive(archive, 0, std::min(tokens, attention_->options().sinks));
  }
}

DotProductAttention::DotProductAttention(const AttentionSetting& setting, DotProductOptions options,
                                         std::vector<Product> products)
    : options_(std::move(options)),
      core_(ActivationType(setting.precision), options_.head_dim, options_.scale) {
  products_ = std::move(products);
  out_width_ = options_.heads * options_.head_dim;
  tasks_ = options_.key_value_heads;
  decode_ = options_.causal || setting.cross ? DecodeClass::kExact : DecodeClass::kNone;
}

std::unique_ptr<AttentionRun> DotProductAttention::Start() const { return std::make_unique<Run>(*this); }

int64_t DotProductAttention::KeptFrom(int64_t tokens) const {
  return options_.window == 0 ? 0 : WindowBegin(options_.window, tokens);
}

int64_t DotProductAttention::StateBytes(int64_t tokens) const {
  const DotProductOptions& o = options_;
  const int64_t kept = o.window == 0 ? tokens : WindowKeeps(o.window, tokens);
  const int64_t head = KeyValuePages::Bytes(core_.type(), o.head_dim, 0, kept) +
                       KeyValuePages::Bytes(core_.type(), o.head_dim, 0, std::min(tokens, o.sinks));
  return sizeof(int64_t) + o.key_value_heads * head;
}

double DotProductAttention::Cost(int64_t n) const {
  const double length = n,
               seen = std::min<double>(n, options_.window > 0 ? options_.window + options_.sinks : n);
  const double pairs = options_.causal ? seen * (seen + 1) / 2 + (length - seen) * seen : length * length;
  return 2 * pairs * out_width_;
}

int64_t DotProductAttention::ScratchBytes(int64_t) const {
  const int64_t turned = kPage * options_.head_dim * SizeOf(core_.type()),
                positions = kPage * sizeof(int64_t);
  return Scratch::Piece(turned) + Scratch::Piece(positions) + core_.ScratchBytes();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewDotProductAttention(const AttentionSetting& setting,
                                                                  DotProductOptions options,
                                                                  const WeightScope& scope) {
  CHECK(options.heads % options.key_value_heads == 0 && options.head_dim > 0 && options.scale > 0);
  CHECK(options.causal || options.window == 0) << "a window looks back";
  CHECK(options.window > 0 || options.sinks == 0) << "without a window every key stays visible";
  const int64_t key_width = options.key_value_heads * options.head_dim;
  ASSIGN_OR_RETURN(Product q, LoadProduct(scope, "q", options.heads * options.head_dim, setting.width));
  ASSIGN_OR_RETURN(Product k, LoadProduct(scope, "k", key_width, setting.width));
  ASSIGN_OR_RETURN(Product v, LoadProduct(scope, "v", key_width, setting.width));
  k.of_source = v.of_source = setting.cross;
  return std::make_unique<DotProductAttention>(setting, std::move(options), std::vector<Product>{q, k, v});
}

}  // namespace heed
