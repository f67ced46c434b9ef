#include "engine/models/attention_pass.h"

#include <algorithm>
#include <utility>

namespace heed {

void AttentionPass::Clear(double alone) {
  alone_ = alone;
  parts_.clear();
  stage_ = 0;
  begun_ = false;
}

void AttentionPass::Add(int sequence, AttentionRun& run, AttentionRows rows, std::vector<Rows> products) {
  Part& part = parts_.emplace_back(sequence, &run, rows, std::move(products));
  part.rows.products = part.products.data();  // which stays where it is when the part moves
  part.stages = run.Begin(part.rows);
}

void AttentionPass::Drop(int sequence) {
  for (Part& part : parts_) part.dropped = part.dropped || part.sequence == sequence;
}

bool AttentionPass::Advance(Threads& threads, Turn& turn, std::span<Scratch> scratch) {
  for (; begun_ || BeginStage(); begun_ = false, ++stage_) {
    begun_ = true;
    if (turn.room <= 0 || !RunStage(threads, turn, scratch)) return false;
  }
  return true;
}

bool AttentionPass::BeginStage() {
  order_.clear();
  for (Part& part : parts_) {
    if (stage_ < part.stages.size()) order_.push_back(&part);
  }
  std::ranges::stable_sort(order_, {}, [&](const Part* part) { return -part->stages[stage_].cost; });
  tasks_ = 0;
  cost_ = 0;
  for (Part* part : order_) {
    const AttentionStage& stage = part->stages[stage_];
    part->first_task = tasks_;
    tasks_ += stage.tasks;
    cost_ += static_cast<double>(stage.tasks) * stage.cost;
  }
  return !order_.empty();
}

AttentionPass::Part& AttentionPass::Owner(int64_t task) {
  return **std::prev(
      std::ranges::upper_bound(order_, task, {}, [](const Part* part) { return part->first_task; }));
}

bool AttentionPass::RunStage(Threads& threads, Turn& turn, std::span<Scratch> scratch) {
  const auto cost = [&](int64_t i) { return Owner(i).stages[stage_].cost; };
  const auto task = [&](int64_t i, int thread) {
    Part& part = Owner(i);
    if (part.dropped) return;
    part.run->Do(part.rows, static_cast<int>(stage_), i - part.first_task, scratch[thread]);
    scratch[thread].Reset();
  };
  if (cost_ > alone_) return RunSome(threads, turn, tasks_, cost, task);
  for (int64_t i = 0; i < tasks_; ++i) task(i, 0);
  turn.room -= cost_;
  return true;
}

}  // namespace heed
