#include "server/turns.h"

#include <algorithm>

namespace heed {

void Turns::Enter(Seat& seat) {
  std::lock_guard lock(mutex_);
  seat.kept_ = kNever;
  if (std::ranges::find(seats_, &seat) != seats_.end()) return;
  seat.used_ = std::max(seat.used_, latest_);
  seats_.push_back(&seat);
}

void Turns::Leave(Seat& seat) {
  {
    std::lock_guard lock(mutex_);
    std::erase(seats_, &seat);
  }
  changed_.notify_all();
}

void Turns::Rest(Seat& seat) {
  {
    std::lock_guard lock(mutex_);
    seat.kept_ = clock_->Now() + keep_;
  }
  changed_.notify_all();
}

bool Turns::Advance(Pass& pass, Seat& seat) {
  Begin(seat);
  struct Turn {  // ends with the layer, however that ends
    ~Turn() { turns->End(*seat, turns->clock_->Now() - begin); }
    Turns* turns;
    Seat* seat;
    Time begin;
  } turn{this, &seat, clock_->Now()};
  return pass.Advance(*threads_);
}

int Turns::waiting() const {
  std::lock_guard lock(mutex_);
  return waiting_;
}

const Turns::Seat* Turns::Next(Time now, Time* again) const {
  const Seat* next = nullptr;
  for (const Seat* seat : seats_) {
    if (now < seat->kept_ && (next == nullptr || seat->used_ < next->used_)) next = seat;
  }
  if (next == nullptr || next->kept_ == kNever) return next;
  *again = next->kept_;
  return nullptr;
}

void Turns::Begin(Seat& seat) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  while (true) {
    Time again = kNever;
    const Time now = clock_->Now();
    if (!busy_ && Next(now, &again) == &seat) break;
    again == kNever ? changed_.wait(lock) : void(changed_.wait_for(lock, again - now));
  }
  --waiting_;
  busy_ = true;
  latest_ = seat.used_;
}

void Turns::End(Seat& seat, Duration used) {
  {
    std::lock_guard lock(mutex_);
    busy_ = false;
    seat.used_ += used;
    auto place = std::ranges::find(seats_, &seat);
    std::rotate(place, place + 1, seats_.end());
  }
  changed_.notify_all();
}

}  // namespace heed
