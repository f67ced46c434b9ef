#include "engine/blocks/expert_router.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "engine/attention/attention.h"
#include "engine/base/status.h"
#include "engine/ops/rows.h"
#include "engine/ops/top_k.h"

namespace heed {
namespace {

constexpr int64_t kMostExperts = 1 << 16;
constexpr double kMostScale = 1e6;

}  // namespace

ExpertRouter::ExpertRouter(JsonFields& fields) {
  experts_ = fields.RequiredInt("experts", 1, kMostExperts);
  top_k_ = fields.Int("top_k", 1, 1, std::min(kMostChosen, experts_));
  const std::string score = fields.Choice("score", {"softmax", "sigmoid", "chosen_softmax", "sparse_mixer"});
  score_ = score == "sigmoid"          ? Score::kSigmoid
           : score == "chosen_softmax" ? Score::kChosenSoftmax
           : score == "sparse_mixer"   ? Score::kSparseMixer
                                       : Score::kSoftmax;
  normalize_ = fields.Bool("normalize", top_k_ > 1 && score_ != Score::kSparseMixer);
  jitter_ = static_cast<float>(fields.Number("jitter", 0.01, 0, 1));
  if (fields.Has("jitter") && score_ != Score::kSparseMixer)
    fields.Fail(Cat("jitter: of score \"sparse_mixer\", not of ", Shown(score)));
  scale_ = static_cast<float>(fields.Number("scale", 1, 1 / kMostScale, kMostScale));
  groups_ = fields.Int("groups", 1, 1, experts_);
  top_groups_ = fields.Int("top_groups", groups_, 1, groups_);
  group_best_ = fields.Choice("group_score", {"two", "max"}) == "max" ? 1 : 2;
  if (fields.Bool("strict_groups", false)) outside_ = -std::numeric_limits<float>::infinity();
  corrected_ = fields.Bool("correction", false);
  corrects_logits_ = fields.Choice("correction_of", {"scores", "logits"}) == "logits";
  scaled_ = fields.Bool("expert_scale", false);
  const int64_t each = experts_ / groups_;
  if (score_ == Score::kSparseMixer && (groups_ > 1 || corrected_))
    fields.Fail("score: \"sparse_mixer\" is served without groups and correction");
  if (experts_ % groups_ != 0)
    fields.Fail(Cat("groups: ", experts_, " experts are not divisible by ", groups_));
  else if (top_k_ > top_groups_ * each)
    fields.Fail(Cat("top_k: ", top_k_, " is above the ", top_groups_ * each, " experts of top_groups"));
}

absl::Status ExpertRouter::Load(const WeightScope& scope, int64_t width, bool shared_gate) {
  ASSIGN_OR_RETURN(const Product router, LoadProduct(scope, "router", experts_, width));
  std::vector<PackedWeights::Part> parts = {{router.weight, router.bias}};
  if (shared_gate) {
    ASSIGN_OR_RETURN(const Product gate, LoadProduct(scope, "shared_gate", 1, width));
    parts.push_back({gate.weight, gate.bias});
  }
  product_ = PackedWeights::Pack(parts, Precision::kF32);
  if (corrected_) {
    ASSIGN_OR_RETURN(correction_, scope.Floats("router.correction", {experts_}));
  }
  if (scaled_) {
    ASSIGN_OR_RETURN(expert_scale_, scope.Floats("router.expert_scale", {experts_}));
  }
  return absl::OkStatus();
}

int64_t ExpertRouter::scratch_bytes() const {
  return TopKScratchBytes(kMostChosen) + 2 * Scratch::Piece(experts_ * static_cast<int64_t>(sizeof(float))) +
         TopKScratchBytes(groups_);
}

// What decides is the logit where all else rises with it.
void ExpertRouter::Choose(const float* logits, Scratch& scratch, int32_t* chosen, float* weights) const {
  const ScratchFrame frame(scratch);
  const bool by_scores = corrected_ || groups_ > 1;
  const double all = score_ == Score::kSoftmax ? LogSumExp(logits, experts_) : 0;
  const auto score = [&](int64_t e) {
    return score_ == Score::kSigmoid ? 1 / (1 + std::exp(-logits[e]))
                                     : static_cast<float>(std::exp(logits[e] - all));
  };
  Ranked best[kMostChosen];
  if (by_scores) {
    float* choices = scratch.Take<float>(experts_);
    for (int64_t e = 0; e < experts_; ++e) {
      const float of = score_ == Score::kChosenSoftmax || corrects_logits_ ? logits[e] : score(e);
      choices[e] = of + (corrected_ ? correction_[e] : 0);
    }
    if (top_groups_ < groups_) LeaveBestGroups(choices, scratch);
    TopK(choices, experts_, top_k_, scratch, best);
  } else {
    TopK(logits, experts_, top_k_, scratch, best);
  }
  const auto chosen_logit = [&](int64_t i) { return logits[best[i].index]; };
  float highest = chosen_logit(0), sum = 0;
  for (int64_t i = 1; i < top_k_; ++i) highest = std::max(highest, chosen_logit(i));
  for (int64_t i = 0; i < top_k_; ++i) {
    chosen[i] = best[i].index;
    weights[i] = score_ == Score::kChosenSoftmax ? std::exp(chosen_logit(i) - highest)
                 : score_ == Score::kSparseMixer ? MixerShare(logits, chosen, i)
                                                 : score(best[i].index);
    sum += weights[i];
  }
  const float divisor = normalize_ || score_ == Score::kChosenSoftmax ? sum : 1;
  for (int64_t i = 0; i < top_k_; ++i) {
    weights[i] = weights[i] / divisor * scale_;
    if (scaled_) weights[i] *= expert_scale_[chosen[i]];
  }
}

// Of the chosen expert of this number: a softmax over it and those that are nearly as good, without those
// chosen before.
float ExpertRouter::MixerShare(const float* logits, const int32_t* chosen, int64_t number) const {
  const float most = logits[chosen[number]];
  double sum = 0;
  for (int64_t e = 0; e < experts_; ++e) {
    if (std::find(chosen, chosen + number, e) != chosen + number) continue;
    const float behind = (most - logits[e]) / std::max(std::abs(logits[e]), most);
    if (!(behind > 2 * jitter_)) sum += std::exp(static_cast<double>(logits[e]) - most);
  }
  return static_cast<float>(1 / sum);
}

// The experts of other groups count 0, as in DeepSeek's own code, or are none to choose from.
void ExpertRouter::LeaveBestGroups(float* choices, Scratch& scratch) const {
  const int64_t each = experts_ / groups_;
  float* scores = scratch.Take<float>(groups_);
  for (int64_t g = 0; g < groups_; ++g) {
    float first = -std::numeric_limits<float>::infinity(), second = first;
    for (int64_t e = g * each; e < (g + 1) * each; ++e) {
      if (choices[e] > first) {
        second = first;
        first = choices[e];
      } else if (choices[e] > second) {
        second = choices[e];
      }
    }
    scores[g] = group_best_ == 1 || each == 1 ? first : first + second;
  }
  for (int64_t left = groups_ - top_groups_; left > 0; --left) {
    const int64_t worst = std::min_element(scores, scores + groups_) - scores;
    scores[worst] = std::numeric_limits<float>::infinity();
    std::fill_n(choices + worst * each, each, outside_);
  }
}

}  // namespace heed
