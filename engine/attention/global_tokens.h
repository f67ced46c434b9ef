// What Longformer's global tokens (Beltagy et al. 2020) add to a band of keys: rows see them, each once, and
// their own rows see everything, by queries, keys and values of their own.
#ifndef HEED_ENGINE_ATTENTION_GLOBAL_TOKENS_H_
#define HEED_ENGINE_ATTENTION_GLOBAL_TOKENS_H_

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/attention/pattern_attention.h"

namespace heed {

// Masks the global tokens that the rows of a tile see in their band already.
class OutsideTheBand : public ScoreBias {
 public:
  // The band in positions; all rows have the residue of the first modulo `dilation`.
  OutsideTheBand(const std::vector<int64_t>& globals, Band band, int64_t dilation,
                 const SoftmaxQueries& queries, Scratch& scratch);
  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override;
  static int64_t ScratchBytes(int64_t globals) {
    return Scratch::Piece(globals * SizeOf(DType::kF32)) +
           Scratch::Piece(SoftmaxCore::kTile * sizeof(Range)) +
           Scratch::Piece(SoftmaxCore::kTile * kKeyBlock * SizeOf(DType::kF32));
  }

 private:
  float* masks_;   // of each global token, for rows whose band reaches it
  Range* ranges_;  // of each row, the global tokens that its band reaches
  float* values_;
};

// A sequence in which there may be global tokens: those that set 1 of the heads' patterns lists, of which
// set 0 has all positions. It comes whole, and with it which they are. After the band the rows of the global
// tokens are made anew, in two more stages: keys and values for them take the place of the band's, which no
// row reads any more, and they attend from these.
class GlobalTokensRun : public PatternRun {
 public:
  enum { kQ, kK, kV, kGlobalK, kGlobalV };  // the products; the rows of global tokens have Qg for Q
  // What heads follow where a request names the global tokens.
  using PatternsWith = std::function<Patterns(const std::vector<int64_t>& globals)>;

  GlobalTokensRun(const PatternAttention& attention, PatternsWith patterns_with)
      : PatternRun(attention), attention_(&attention), patterns_with_(std::move(patterns_with)) {}
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<GlobalTokensRun>(*this); }
  void Archive(StateArchive& archive) override;

 private:
  static constexpr int64_t kNoneGiven = -1;  // instead of a number of global tokens: the file's are

  // All of them, the file's beyond the sequence too.
  std::span<const int64_t> GlobalTokens() const;
  void ArchiveGiven(StateArchive& archive);
  void Take(const AttentionRows& rows, int head, int64_t cut, Scratch& scratch);
  void Attend(const AttentionRows& rows, int head, Range globals, Scratch& scratch);
  std::vector<KeySource> Everything(int head);

  const PatternAttention* attention_;
  PatternsWith patterns_with_;
  int64_t given_ = kNoneGiven;  // global tokens, by the request
  // Of the rows at hand.
  int band_stages_ = 0;
  int64_t globals_ = 0;    // among them
  int64_t tile_rows_ = 1;  // of those, at most
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_GLOBAL_TOKENS_H_
