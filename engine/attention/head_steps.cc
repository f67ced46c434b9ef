#include "engine/attention/head_steps.h"

#include <algorithm>
#include <utility>

namespace heed {

std::vector<AttentionStage> HeadSteps::Begin(Plan plan) {
  plan_ = std::move(plan);
  const auto bytes = static_cast<size_t>(plan_.at_once * plan_.bytes);
  if (bytes == 0) Release();
  if (memory_.size() < bytes) {
    Release();
    memory_ = Buffer::Lasting(bytes);
  }
  std::vector<AttentionStage> stages;
  if (plan_.few) {
    double cost = 0;
    for (const Step& step : plan_.steps) cost += static_cast<double>(step.cuts) * step.cost;
    return {{plan_.heads, cost}};
  }
  for (int first = 0; first < plan_.heads; first += plan_.at_once) {
    const int heads = std::min(plan_.at_once, plan_.heads - first);
    for (const Step& step : plan_.steps) stages.push_back({heads * step.cuts, step.cost});
  }
  if (!memory_.empty()) stages.push_back({1, 0});
  return stages;
}

void HeadSteps::Measure(StateArchive& archive) {
  if (archive.measuring()) archive.Bytes(memory_, static_cast<int64_t>(memory_.size()));
}

}  // namespace heed
