#include "engine/models/attention_pass.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

// A run whose work is a list of stages, and which writes down what was done.
class FakeRun : public AttentionRun {
 public:
  explicit FakeRun(std::vector<AttentionStage> stages) : stages_(std::move(stages)) {}
  std::vector<AttentionStage> Begin(const AttentionRows&) override { return stages_; }
  void Do(const AttentionRows&, int stage, int64_t task, Scratch&) override {
    const std::lock_guard lock(mutex_);
    done_.emplace_back(stage, task);
  }
  std::unique_ptr<AttentionRun> Clone() const override { return nullptr; }
  void Archive(StateArchive&) override {}
  int64_t tokens() const override { return 0; }

  const std::vector<std::pair<int, int64_t>>& done() const { return done_; }

 private:
  std::vector<AttentionStage> stages_;
  std::mutex mutex_;  // guards done_
  std::vector<std::pair<int, int64_t>> done_;
};

struct World {
  explicit World(int count) : threads(count), scratch(count) { turn.room = kTurn * count; }
  bool Advance() {
    turn.room = kTurn * threads.count();
    return pass.Advance(threads, turn, scratch);
  }

  Threads threads;
  std::vector<Scratch> scratch;
  Turn turn;
  AttentionPass pass;
};

TEST(AttentionPass, DoesEveryTaskOnceStageByStage) {
  for (double alone : {0.0, 1e12}) {
    World world(3);
    FakeRun one({{7, 10}, {3, 20}, {1, 0}}), two({{5, 1000}}), three({{2, 1}, {40, 5}});
    world.pass.Clear(alone);
    world.pass.Add(0, one, {}, {});
    world.pass.Add(1, two, {}, {});
    world.pass.Add(2, three, {}, {});
    ASSERT_TRUE(world.Advance());
    for (const auto& [run, tasks] : std::vector<std::pair<FakeRun*, std::vector<int64_t>>>{
             {&one, {7, 3, 1}}, {&two, {5}}, {&three, {2, 40}}}) {
      std::vector<std::vector<int64_t>> by_stage(tasks.size());
      int stage = 0;
      for (const auto& [of, task] : run->done()) {
        EXPECT_GE(of, stage) << "a stage begins when the one before is done";
        stage = of;
        by_stage[of].push_back(task);
      }
      for (size_t s = 0; s < tasks.size(); ++s) {
        std::vector<int64_t> all(tasks[s]);
        for (int64_t t = 0; t < tasks[s]; ++t) all[t] = t;
        EXPECT_THAT(by_stage[s], testing::UnorderedElementsAreArray(all));
      }
    }
  }
}

TEST(AttentionPass, NothingToDoIsDone) {
  World world(2);
  FakeRun idle({});
  world.pass.Clear(0);
  EXPECT_TRUE(world.Advance());
  world.pass.Add(0, idle, {}, {});
  EXPECT_TRUE(world.Advance());
}

// Sixteen threads on however many cores: tasks are counted, not timed.
TEST(AttentionPass, ATurnIsAtMostTwiceItsBudget) {
  World world(16);
  FakeRun run({{1000, kTaskCost}});
  world.pass.Clear(0);
  world.pass.Add(0, run, {}, {});
  size_t before = 0;
  while (!world.Advance()) {
    const double cost = static_cast<double>(run.done().size() - before) * kTaskCost;
    before = run.done().size();
    EXPECT_GE(cost, kTurn * 16);
    EXPECT_LE(cost, 2 * kTurn * 16);
  }
  EXPECT_EQ(run.done().size(), 1000);
}

TEST(AttentionPass, WhatIsDroppedDoesNoMore) {
  World world(2);
  FakeRun kept({{100, kTaskCost}, {2, 1}}), dropped({{100, kTaskCost}, {2, 1}});
  world.pass.Clear(0);
  world.pass.Add(0, dropped, {}, {});
  world.pass.Add(1, kept, {}, {});
  ASSERT_FALSE(world.Advance());
  const size_t before = dropped.done().size();
  ASSERT_GT(before, 0);
  world.pass.Drop(0);
  while (!world.Advance()) {
  }
  EXPECT_EQ(dropped.done().size(), before);
  EXPECT_EQ(kept.done().size(), 102);
}

}  // namespace
}  // namespace heed
