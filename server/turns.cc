#include "server/turns.h"

#include <algorithm>

namespace heed {

void Turns::Enter(Seat& seat) {
  std::lock_guard lock(mutex_);
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

bool Turns::IsNext(const Seat& seat) const {
  auto used = [](const Seat* s) { return s->used_; };
  return !busy_ && *std::ranges::min_element(seats_, {}, used) == &seat;
}

void Turns::Begin(Seat& seat) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  changed_.wait(lock, [&] { return IsNext(seat); });
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
