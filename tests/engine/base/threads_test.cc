#include "engine/base/threads.h"

#include <atomic>
#include <climits>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using ::testing::Each;

constexpr int kCounts[] = {1, 2, 3, 8};  // more than this machine has cores, too

TEST(Threads, EveryTaskIsDoneOnce) {
  for (int count : kCounts) {
    Threads threads(count);
    for (int64_t n : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> done(n);
      threads.RunTasks(n, [&](int64_t i, int thread) {
        EXPECT_TRUE(thread >= 0 && thread < count);
        ++done[i];
      });
      for (auto& times : done) EXPECT_EQ(times, 1);
    }
  }
}

TEST(Threads, LowTasksStartFirst) {
  Threads threads(3);
  std::atomic<int64_t> started = 0;
  std::atomic<int> too_early = 0;
  threads.RunTasks(500, [&](int64_t i, int) {
    if (i > started.fetch_add(1) + 3) ++too_early;
  });
  EXPECT_EQ(too_early, 0);
}

TEST(Threads, ATeamHasEachRankOnce) {
  for (int count : kCounts) {
    Threads threads(count);
    std::vector<int> visits(count, 0);
    threads.RunTeam([&](Team& team) {
      EXPECT_EQ(team.size(), count);
      ++visits[team.rank()];
    });
    EXPECT_THAT(visits, Each(1));
  }
}

TEST(Threads, TeamsShareTheThreadsOutAsEquallyAsCanBe) {
  for (int count : {1, 2, 3, 8, 16}) {
    Threads threads(count);
    for (int teams = 1; teams <= count; ++teams) {
      std::vector<Range> team_of(count);
      threads.RunTeams(teams, [&](Team& team, Range members) {
        EXPECT_EQ(team.size(), members.size());
        EXPECT_TRUE(team.size() == count / teams || team.size() == (count + teams - 1) / teams);
        team_of[members.begin + team.rank()] = members;
      });
      int begun = 0;
      for (int thread = 0; thread < count; ++thread) {
        begun += team_of[thread].begin == thread;
        EXPECT_TRUE(team_of[thread].begin <= thread && thread < team_of[thread].end);
      }
      EXPECT_EQ(begun, teams);
    }
  }
}

TEST(Threads, ATeamDoesNotWaitForAnother) {
  Threads threads(16);
  std::vector<int64_t> written(16, 0);
  for (int teams : {2, 3, 5, 15}) {
    threads.RunTeams(teams, [&](Team& team, Range members) {
      const int64_t steps = 10 * (1 + members.begin);  // each team its own number of barriers
      for (int64_t step = 1; step <= steps; ++step) {
        written[members.begin + team.rank()] = step;
        team.Barrier();
        for (int64_t thread = members.begin; thread < members.end; ++thread) EXPECT_EQ(written[thread], step);
        team.Barrier();
      }
    });
  }
}

TEST(Threads, WhatOneTeamThrowsReachesTheCallerWhenTheOthersHaveEnded) {
  Threads threads(8);
  for (int teams : {2, 3, 8}) {
    std::atomic<int> ended = 0, broken = 0;
    const auto program = [&](Team& team, Range members) {
      for (int i = 0; i < 10; ++i) {
        if (members.begin == 0 && team.rank() == team.size() - 1 && i == 5) throw std::runtime_error("luck");
        team.Barrier();
      }
      members.begin == 0 ? ++broken : ++ended;
    };
    EXPECT_THROW(threads.RunTeams(teams, program), std::runtime_error);
    EXPECT_EQ(broken, 0);
    EXPECT_EQ(ended, 8 - (8 + teams - 1) / teams);
    std::atomic<int> done = 0;  // and the barriers are as good as before
    threads.RunTeam([&](Team& team) {
      team.Barrier();
      ++done;
      team.Barrier();
      EXPECT_EQ(done, 8);
    });
  }
}

TEST(Threads, WhatWasWrittenBeforeABarrierIsReadAfterIt) {
  for (int count : kCounts) {
    Threads threads(count);
    std::vector<int64_t> written(count, 0);
    threads.RunTeam([&](Team& team) {
      for (int64_t step = 1; step <= 300; ++step) {
        written[team.rank()] = step;
        team.Barrier();
        EXPECT_THAT(written, Each(step));
        team.Barrier();
      }
    });
  }
}

TEST(Threads, ManyShortRegionsInARow) {
  Threads threads(4);
  int64_t sum = 0;
  for (int i = 0; i < 5000; ++i) {
    std::atomic<int64_t> ranks = 0;
    threads.RunTeam([&](Team& team) { ranks += team.rank(); });
    sum += ranks;
  }
  EXPECT_EQ(sum, 5000 * (0 + 1 + 2 + 3));
}

TEST(Threads, WhatATaskThrowsReachesTheCaller) {
  for (int count : kCounts) {
    Threads threads(count);
    EXPECT_THROW(threads.RunTasks(100,
                                  [](int64_t i, int) {
                                    if (i == 37) throw std::bad_alloc();
                                  }),
                 std::bad_alloc);
    std::atomic<int> done = 0;  // and the threads are as good as before
    threads.RunTasks(10, [&](int64_t, int) { ++done; });
    EXPECT_EQ(done, 10);
  }
}

TEST(Threads, NobodyWaitsForAMemberThatHasThrown) {
  for (int count : kCounts) {
    Threads threads(count);
    for (int thrower = 0; thrower < count; ++thrower) {
      for (int step : {0, 1, 5}) {
        auto program = [&](Team& team) {
          for (int i = 0; i < 10; ++i) {
            if (team.rank() == thrower && i == step) throw std::runtime_error("out of luck");
            team.Barrier();
          }
        };
        EXPECT_THROW(threads.RunTeam(program), std::runtime_error);
      }
    }
  }
}

TEST(Threads, AnyThreadMayCallOneAfterAnother) {
  Threads threads(3);
  for (int i = 0; i < 20; ++i) {
    std::thread([&] {
      std::atomic<int> done = 0;
      threads.RunTasks(50, [&](int64_t, int) { ++done; });
      EXPECT_EQ(done, 50);
    }).join();
  }
}

TEST(Team, SharesAreDisjointCoverAllAndKeepTheGrain) {
  for (int size : {1, 2, 3, 7}) {
    for (int64_t n : {0, 1, 5, 64, 1000}) {
      for (int64_t grain : {1, 8, 64}) {
        int64_t end = 0;
        for (int rank = 0; rank < size; ++rank) {
          const Range range = Team(rank, size, nullptr).Share(n, grain);
          EXPECT_EQ(range.begin, end);
          EXPECT_TRUE(range.end == n || range.end % grain == 0);
          end = range.end;
        }
        EXPECT_EQ(end, n);
      }
    }
  }
}

// A tree of /proc and /sys files, as one kind of machine has them.
class Machine {
 public:
  Machine()
      : root_(testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name()) {}
  ~Machine() { std::filesystem::remove_all(root_); }

  Machine& With(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
    return *this;
  }
  int Cpus() const { return QuotaCpus(root_); }

 private:
  const std::string root_;
};

TEST(AvailableCpus, IsAtLeastOneAndAtMostAllOfThem) {
  EXPECT_GE(AvailableCpus(), 1);
  EXPECT_LE(AvailableCpus(), static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(AvailableCpus, WithoutAQuotaThereIsNoLimit) {
  EXPECT_EQ(Machine().Cpus(), INT_MAX);
  EXPECT_EQ(
      Machine().With("/proc/self/cgroup", "0::/\n").With("/sys/fs/cgroup/cpu.max", "max 100000\n").Cpus(),
      INT_MAX);
}

TEST(AvailableCpus, ReadsTheQuotaOfCgroupV2RoundedUp) {
  EXPECT_EQ(
      Machine().With("/proc/self/cgroup", "0::/\n").With("/sys/fs/cgroup/cpu.max", "150000 100000\n").Cpus(),
      2);
}

TEST(AvailableCpus, TheLeastQuotaOnTheWayUpCounts) {
  Machine machine;
  machine.With("/proc/self/cgroup", "0::/kubepods/pod1/main\n")
      .With("/sys/fs/cgroup/kubepods/pod1/main/cpu.max", "max 100000\n")
      .With("/sys/fs/cgroup/kubepods/pod1/cpu.max", "300000 100000\n")
      .With("/sys/fs/cgroup/kubepods/cpu.max", "800000 100000\n");
  EXPECT_EQ(machine.Cpus(), 3);
}

TEST(AvailableCpus, ReadsTheQuotaOfCgroupV1AlsoWhenThePathIsTheHosts) {
  Machine machine;
  machine.With("/proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n")
      .With("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n")
      .With("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(machine.Cpus(), 4);
  machine.With("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(machine.Cpus(), INT_MAX);
}

}  // namespace
}  // namespace heed
