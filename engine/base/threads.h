// The engine's own threads. Nothing else in the process computes.
//
// Three ways to share work:
//   RunTasks: many independent tasks, each done by one thread; who is free takes the next.
//   RunTeam:  one program that all threads run together, step by step, with barriers between.
//   RunTeams: the threads are several teams, each with a program of its own.
// A row program is written for a Team and does not know which of them it runs in: with many rows each task is
// a team of one, with few rows all threads are one team that splits columns.
#ifndef HEED_ENGINE_BASE_THREADS_H_
#define HEED_ENGINE_BASE_THREADS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"

namespace heed {

// CPUs this process may use: the smaller of its affinity mask and its cgroup's CPU quota (v2 or v1,
// rounded up), at least 1. The host's number of cores does not count.
int AvailableCpus();
// The quota alone, INT_MAX without one. `root` is prepended to /proc and /sys, for tests.
int QuotaCpus(const std::string& root);

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

class TeamBarrier;

// One member's view of the threads that run a program together. Not shared between members.
class Team {
 public:
  Team() = default;  // a team of one
  Team(int rank, int size, TeamBarrier* barrier) : rank_(rank), size_(size), barrier_(barrier) {}

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Waits for all members; does nothing in a team of one. If a member has thrown, throws TeamBroken in
  // the others, so that nobody waits for ever.
  void Barrier();

  // This member's part of [0, n), cut at multiples of `grain`. The parts of all members are disjoint
  // and cover [0, n). Results must not depend on the cut: only outputs are shared out, never a sum.
  Range Share(int64_t n, int64_t grain = 1) const;

 private:
  int rank_ = 0;
  int size_ = 1;
  TeamBarrier* barrier_ = nullptr;
};

// Thrown by Team::Barrier() when another member has thrown; Threads rethrows the first member's exception.
struct TeamBroken {};

// A fixed set of threads. Run*() may be called from any thread, but one call at a time (the caller sees to
// it); the caller works too, as rank or thread 0. What a task throws is rethrown in the caller after all
// threads have stopped. Between calls the threads spin for a short, bounded time, then sleep: an idle
// process uses no CPU.
class Threads {
 public:
  // `count` includes the caller, at least 1.
  explicit Threads(int count);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int count() const;

  // body(team) once in every thread, as one team.
  void RunTeam(absl::FunctionRef<void(Team&)> body);

  // As `teams` teams at once, 1 to count() and as equal as can be: body(team, threads) once in every thread,
  // which is threads.begin + team.rank(); `threads` are its team's. A team does not wait for another.
  void RunTeams(int teams, absl::FunctionRef<void(Team& team, Range threads)> body);

  // task(i, thread) once for each i in [0, n), thread in [0, count()). Lower i are started first: put
  // the longest first.
  void RunTasks(int64_t n, absl::FunctionRef<void(int64_t i, int thread)> task);

 private:
  class Pool;
  std::unique_ptr<Pool> pool_;
};

}  // namespace heed

#endif  // HEED_ENGINE_BASE_THREADS_H_
