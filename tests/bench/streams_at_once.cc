#include "tests/bench/streams_at_once.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "engine/base/archive.h"
#include "tests/bench/run.h"

namespace heed {
namespace {

std::unique_ptr<Sequence> Restored(const Model& model, std::string_view state) {
  std::unique_ptr<Sequence> sequence = model.Start();
  StateArchive archive = StateArchive::Restoring(state);
  sequence->Archive(archive);
  CHECK(archive.Finish().ok()) << archive.status();
  return sequence;
}

}  // namespace

std::string StateAfter(const Model& model, int64_t context, Threads& threads) {
  std::string state;
  StateArchive archive = StateArchive::Saving(&state);
  AfterPrompt(model, context, threads)->Archive(archive);
  CHECK(archive.Finish().ok()) << archive.status();
  return state;
}

StepCost MeasureStep(const Model& model, const std::string& state, int64_t context, int count,
                     ColdMemory& memory, LimitsNow& limits, Threads& threads, double weights) {
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (int i = 0; i < count; ++i) sequences.push_back(Restored(model, state));
  const double bytes = weights * static_cast<double>(model.info().weight_bytes) +
                       static_cast<double>(count) * static_cast<double>(model.StateBytes(context));
  limits.Reset();
  limits.Measure();
  const std::vector<double> seconds = LeastSeconds(
      {[&] { StepAll(model, sequences, threads); }, [&] { memory.Read(static_cast<int64_t>(bytes)); }}, 0.7);
  const double operations = 2.0 * count * (model.Cost(context + 1) - model.Cost(context));
  const double least = std::max(operations / limits.operations(), seconds[1]);
  return {.seconds = seconds[0], .read_bytes = bytes / seconds[1], .share = least / seconds[0]};
}

}  // namespace heed
