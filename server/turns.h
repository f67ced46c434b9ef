// The engine's threads, lent to one pass at a time for one layer or a part of it, so that models take turns.
//
// The turn goes to the seat that has used the least time (start-time fair queueing, Goyal et al. 1996).
// Models that are busy share the time evenly, whatever their layers cost; and a model with cheap passes, a
// decoder, waits for at most one turn of an expensive one in each of its own passes that costs less than that
// turn.
#ifndef HEED_SERVER_TURNS_H_
#define HEED_SERVER_TURNS_H_

#include <condition_variable>
#include <mutex>
#include <vector>

#include "engine/base/threads.h"
#include "engine/models/model.h"
#include "server/clock.h"

namespace heed {

// Thread-safe.
class Turns {
 public:
  // One scheduler's place. It is used by one thread, and left before it is destroyed.
  class Seat {
   private:
    friend class Turns;
    Duration used_{};     // of the engine's time; guarded by mutex_
    Time kept_ = kNever;  // its due turn is kept until then
  };

  // `keep`: how long a due turn waits for a seat that has something else to do.
  explicit Turns(Threads* threads, const Clock* clock = &Clock::Real(),
                 Duration keep = std::chrono::milliseconds(2))
      : threads_(threads), clock_(clock), keep_(keep) {}

  // Between Enter and Leave the turns due to a seat are kept for it, so it should be about to ask for them.
  // Time before it entered counts as used: nobody saves up. Entering twice is entering once.
  void Enter(Seat& seat);
  void Leave(Seat& seat);
  // Between two passes, while a batch settles: the turn due to the seat is kept for a little while only, then
  // others go on. Without that while, each step of a decoder would wait for a turn of an encoder, whatever
  // its share.
  void Rest(Seat& seat);

  // Waits for the turn of a seat that has entered, then advances the pass once. What the pass throws passes
  // through.
  bool Advance(Pass& pass, Seat& seat);

  int threads() const { return threads_->count(); }  // of the engine
  int waiting() const;                               // in Advance(), without their turn

 private:
  // Whose turn it is, if it is no one's now: a seat that has entered; null: nobody's before `*again`.
  const Seat* Next(Time now, Time* again) const;
  void Begin(Seat& seat);
  void End(Seat& seat, Duration used);

  Threads* const threads_;
  const Clock* const clock_;
  const Duration keep_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<Seat*> seats_;  // who had a turn last stands last
  Duration latest_{};         // what the seat of the latest turn had used when the turn began
  bool busy_ = false;
  int waiting_ = 0;
};

}  // namespace heed

#endif  // HEED_SERVER_TURNS_H_
