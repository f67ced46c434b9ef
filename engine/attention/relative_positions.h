// Relative positions as Transformer-XL has them (Dai et al. 2019): what counts is how far back a key is, not
// where it stands. With t the distance from a row to a key, clamp_length at most,
//   score = ((q + u) . k + (q + v) . (Wr R_t)) * scale
//   R_t = [sin(t f_0), ..., cos(t f_0), ...],  f_c = 10000^(-2c / hidden_size)
//
// Wr R is the same for all texts, a table made at load, of 1 GiB at most: distances that clamp_length makes
// alike take one panel of it.
#ifndef HEED_ENGINE_ATTENTION_RELATIVE_POSITIONS_H_
#define HEED_ENGINE_ATTENTION_RELATIVE_POSITIONS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/attention/pattern_attention.h"
#include "engine/base/memory.h"

namespace heed {

// Distances are 0 up to `reach`, and those from `clamp` on alike.
struct RelativeOptions {
  int64_t reach = 1;
  int64_t clamp = 0;
};

// Reads clamp_length (none, or 0) and checks what is needed: a decoder, an even width, a table that is not
// too large. `what`: the options that make the reach, with their values.
RelativeOptions ReadRelativeOptions(const AttentionSetting& setting, const PatternOptions& heads,
                                    const std::string& what, int64_t reach, JsonFields& fields);

// Wr R_t, times scale * log2(e) as biases are, packed for the micro-kernel. Column c is the distance
// places() - 1 - c, so that keys and columns ascend together; the farthest may share a panel.
class RelativeTable {
 public:
  RelativeTable(const PatternOptions& heads, const RelativeOptions& options, const Product& r, DType type);
  static int64_t Bytes(const PatternOptions& heads, const RelativeOptions& options, DType type);

  int64_t places() const { return places_; }
  int64_t bytes() const { return static_cast<int64_t>(panels_.size()); }
  const void* Panel(int head, int64_t column) const {
    const int64_t held = std::max<int64_t>(0, column - (places_ - held_));
    return panels_.as<char>() + (head * held_ + held) / kSoftmaxPiece * panel_bytes_;
  }

 private:
  int64_t places_;
  int64_t held_;  // of the places, those with a panel of their own, and a panel of clamped ones alone
  int64_t panel_bytes_;
  Buffer panels_;  // [heads][held / kSoftmaxPiece]
};

// A head's rows with a number added to each column, behind them the zeros that the micro-kernel reads.
// SoftmaxCore::kTile rows at most; they live as long as the scratch.
Rows WithBias(const Rows& q, const float* bias, Scratch& scratch);
int64_t WithBiasScratchBytes(DType type, int64_t head_dim);

// Const and thread-safe.
class RelativePositions {
 public:
  // Tensors: r.weight [hidden_size, hidden_size], r.bias where present; pos_bias_u, pos_bias_v [heads,
  // head_dim].
  static absl::StatusOr<RelativePositions> Load(const AttentionSetting& setting, const PatternOptions& heads,
                                                const RelativeOptions& options, const WeightScope& scope);

  // A head's rows of queries, which scores with keys read, and which scores with positions read.
  // SoftmaxCore::kTile rows at most.
  Rows ForKeys(int head, const Rows& q, Scratch& scratch) const { return Biased(q, u_, head, scratch); }
  Rows ForPositions(int head, const Rows& q, Scratch& scratch) const { return Biased(q, v_, head, scratch); }
  // Adds the score with the position. place(position): where a row stands among the keys of the source, its
  // distance to a key being the difference; empty: at its position.
  std::unique_ptr<ScoreBias> Bias(int head, const Rows& for_positions, std::function<int64_t(int64_t)> place,
                                  Scratch& scratch) const;

  // For both queries and the biases of so many sources, beside `attending`, which is what attending takes.
  int64_t ScratchBytes(int sources, int64_t attending) const;
  int64_t bytes() const { return table_.bytes(); }

 private:
  RelativePositions(std::vector<float> u, std::vector<float> v, RelativeTable table, int64_t head_dim,
                    DType type)
      : u_(std::move(u)), v_(std::move(v)), table_(std::move(table)), head_dim_(head_dim), type_(type) {}
  Rows Biased(const Rows& q, const std::vector<float>& bias, int head, Scratch& scratch) const {
    return WithBias(q, bias.data() + head * head_dim_, scratch);
  }

  std::vector<float> u_, v_;
  RelativeTable table_;
  int64_t head_dim_;
  DType type_;
};

// Attention of which every score has them.
class RelativeAttention : public PatternAttention {
 public:
  RelativeAttention(const AttentionSetting& setting, PatternOptions options, std::vector<Product> products,
                    RelativePositions relative);
  // Three products: with the key, with the position, with the value.
  double PairCost() const override { return 3 * static_cast<double>(core().head_dim()); }
  int64_t ScratchBytes() const override;
  void Prepare(const AttentionRows& rows, const Tile& tile, SoftmaxQueries& queries,
               std::vector<KeySource>& sources, std::vector<std::unique_ptr<ScoreBias>>& biases,
               Scratch& scratch) const override;

 protected:
  // RelativePositions::Bias's, of a set, or, behind the last one, of what all sequences see.
  virtual std::function<int64_t(int64_t)> Places(int) const { return {}; }

 private:
  RelativePositions relative_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_RELATIVE_POSITIONS_H_
