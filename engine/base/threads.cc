// A pool that forks and joins in about a microsecond while hot, and sleeps when left alone. Every wait spins
// for a short, bounded time and then sleeps: a spin without a bound stalls for whole time slices when another
// process holds the core that the other side needs.
#include "engine/base/threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/log/check.h"

namespace heed {
namespace {

constexpr auto kSpin = std::chrono::microseconds(40);

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Returns once `value` is no longer `old`; whoever changes it calls notify.
void WaitWhile(const std::atomic<uint32_t>& value, uint32_t old, bool spin) {
  using Clock = std::chrono::steady_clock;
  for (const auto end = Clock::now() + kSpin; spin && Clock::now() < end;) {
    for (int i = 0; i < 16; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      Pause();
    }
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

// Members count themselves in; the last one opens the next phase.
class alignas(64) TeamBarrier {
 public:
  // Before its team begins.
  void Prepare(int size, bool spin) {
    size_ = size;
    spin_ = spin;
    arrived_.store(0, std::memory_order_relaxed);
    broken_.store(false, std::memory_order_relaxed);
  }

  void Arrive() {
    const uint32_t phase = phase_.load(std::memory_order_acquire);
    if (broken_.load(std::memory_order_acquire))
      throw TeamBroken();  // Break() sets it before it changes the phase
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
      arrived_.store(0, std::memory_order_relaxed);
      NextPhase();
    } else {
      WaitWhile(phase_, phase, spin_);
    }
    if (broken_.load(std::memory_order_acquire)) throw TeamBroken();
  }

  void Break() {
    broken_.store(true, std::memory_order_release);
    NextPhase();
  }

 private:
  void NextPhase() {
    phase_.fetch_add(1, std::memory_order_release);
    phase_.notify_all();
  }

  int size_ = 0;
  bool spin_ = false;
  std::atomic<uint32_t> phase_ = 0;
  std::atomic<int> arrived_ = 0;
  std::atomic<bool> broken_ = false;
};

void Team::Barrier() {
  if (size_ > 1) barrier_->Arrive();
}

Range Team::Share(int64_t n, int64_t grain) const {
  const int64_t grains = (n + grain - 1) / grain;
  auto cut = [&](int64_t rank) { return std::min(n, grains * rank / size_ * grain); };
  return {cut(rank_), cut(rank_ + 1)};
}

// The workers wait for `epoch_` to change, run the job, and count themselves out of `running_`.
class Threads::Pool {
 public:
  explicit Pool(int count) : count_(count), spin_(count <= AvailableCpus()), barriers_(count) {
    CHECK_GE(count, 1);
    for (int rank = 1; rank < count; ++rank) workers_.emplace_back([this, rank] { Work(rank); });
  }

  ~Pool() {
    stopping_ = true;
    NextEpoch();
    for (std::thread& worker : workers_) worker.join();
  }

  int count() const { return count_; }
  bool spin() const { return spin_; }
  // One for each team that there can be.
  TeamBarrier& barrier(int team) { return barriers_[team]; }

  // job(rank) in every thread; returns when all have returned. `job` must not throw.
  void Run(absl::FunctionRef<void(int)> job) {
    job_ = &job;
    running_.store(count_ - 1, std::memory_order_relaxed);
    NextEpoch();
    job(0);
    for (uint32_t left; (left = running_.load(std::memory_order_acquire)) > 0;)
      WaitWhile(running_, left, spin_);
  }

 private:
  void NextEpoch() {
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
  }

  void Work(int rank) {
    for (uint32_t epoch = 0;; ++epoch) {
      WaitWhile(epoch_, epoch, spin_);
      if (stopping_) return;
      (*job_)(rank);
      if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
    }
  }

  const int count_;
  const bool spin_;  // of no use where threads outnumber CPUs
  std::vector<TeamBarrier> barriers_;
  // The two words that threads poll have a cache line each.
  alignas(64) std::atomic<uint32_t> epoch_ = 0;
  alignas(64) std::atomic<uint32_t> running_ = 0;
  alignas(64) const absl::FunctionRef<void(int)>* job_ = nullptr;  // changes only while all workers wait
  bool stopping_ = false;                                          // likewise
  std::vector<std::thread> workers_;
};

namespace {

// The first exception of several threads.
class FirstError {
 public:
  void Catch() {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
  void Rethrow() {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

Threads::Threads(int count) : pool_(std::make_unique<Pool>(count)) {}
Threads::~Threads() = default;

int Threads::count() const { return pool_->count(); }

void Threads::RunTeam(absl::FunctionRef<void(Team&)> body) {
  RunTeams(1, [&](Team& team, Range) { body(team); });
}

void Threads::RunTeams(int teams, absl::FunctionRef<void(Team& team, Range threads)> body) {
  CHECK(1 <= teams && teams <= count()) << teams << " teams of " << count() << " threads";
  if (count() == 1) {
    Team alone;
    return body(alone, {0, 1});
  }
  const auto first = [&](int team) { return (count() * team + teams - 1) / teams; };
  for (int i = 0; i < teams; ++i) pool_->barrier(i).Prepare(first(i + 1) - first(i), pool_->spin());
  FirstError error;
  pool_->Run([&](int thread) {
    const int i = thread * teams / count();
    const Range threads{first(i), first(i + 1)};
    TeamBarrier& barrier = pool_->barrier(i);
    Team member(thread - first(i), static_cast<int>(threads.size()), &barrier);
    try {
      body(member, threads);
    } catch (const TeamBroken&) {  // somebody else's error is on its way
    } catch (...) {
      error.Catch();
      barrier.Break();
    }
  });
  error.Rethrow();
}

void Threads::RunTasks(int64_t n, absl::FunctionRef<void(int64_t i, int thread)> task) {
  if (count() == 1 || n <= 1) {
    for (int64_t i = 0; i < n; ++i) task(i, 0);
    return;
  }
  std::atomic<int64_t> next = 0;
  FirstError error;
  pool_->Run([&](int thread) {
    try {
      for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) task(i, thread);
    } catch (...) {
      error.Catch();
      next.store(n, std::memory_order_relaxed);  // the others finish what they have begun
    }
  });
  error.Rethrow();
}

}  // namespace heed
