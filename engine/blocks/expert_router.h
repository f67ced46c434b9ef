// Which experts of a mixture a row goes to, and what their results count: Switch Transformer (Fedus et al.
// 2021), GShard (Lepikhin et al. 2020), Mixtral (Jiang et al. 2024), DeepSeek-V2 and V3 (2024).
#ifndef HEED_ENGINE_BLOCKS_EXPERT_ROUTER_H_
#define HEED_ENGINE_BLOCKS_EXPERT_ROUTER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/ops/gemm.h"
#include "engine/weights/weights.h"

namespace heed {

// Const and thread-safe. It computes in f32 whatever the model's precision; of equal scores the lower index
// is taken.
class ExpertRouter {
 public:
  static constexpr int64_t kMostChosen = 64;

  // Options, which "moe" documents: experts, top_k, score, jitter, normalize, scale, groups, top_groups,
  // group_score, strict_groups, correction, correction_of, expert_scale. What is wrong with them fails the
  // fields.
  explicit ExpertRouter(JsonFields& fields);
  // Tensors: router.weight [experts, width], router.bias where present, router.correction [experts] with
  // correction, router.expert_scale [experts] with expert_scale; shared_gate.weight [1, width] if a shared
  // expert has a gate.
  absl::Status Load(const WeightScope& scope, int64_t width, bool shared_gate);

  int64_t experts() const { return experts_; }
  int64_t top_k() const { return top_k_; }
  // The logits, of experts first; then, at gate_column(), of the shared expert's gate.
  const PackedWeights& product() const { return product_; }
  int64_t gate_column() const { return product_.offset(1); }
  // For one row: top_k experts, and the weight of each one's result.
  void Choose(const float* logits, Scratch& scratch, int32_t* chosen, float* weights) const;
  int64_t scratch_bytes() const;  // closed form, of Choose

 private:
  enum class Score { kSoftmax, kSigmoid, kChosenSoftmax, kSparseMixer };
  void LeaveBestGroups(float* choices, Scratch& scratch) const;
  float MixerShare(const float* logits, const int32_t* chosen, int64_t number) const;

  int64_t experts_ = 1, top_k_ = 1;
  Score score_ = Score::kSoftmax;
  bool normalize_ = false;
  float scale_ = 1;
  float jitter_ = 0;  // of kSparseMixer
  int64_t groups_ = 1, top_groups_ = 1;
  int64_t group_best_ = 2;  // so many of a group's best are added up
  float outside_ = 0;       // what experts of other groups count
  bool corrected_ = false, corrects_logits_ = false;
  std::vector<float> correction_;
  bool scaled_ = false;
  std::vector<float> expert_scale_;  // of each expert's weights
  PackedWeights product_;
};

}  // namespace heed

#endif  // HEED_ENGINE_BLOCKS_EXPERT_ROUTER_H_
