// Time as the server sees it: monotonic, and moved by hand in tests.
#ifndef HEED_SERVER_CLOCK_H_
#define HEED_SERVER_CLOCK_H_

#include <chrono>

namespace heed {

using Time = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;
inline constexpr Time kNever = Time::max();

constexpr Duration ToDuration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}
constexpr double ToSeconds(Duration time) { return std::chrono::duration<double>(time).count(); }

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
  static const Clock& Real();  // std::chrono::steady_clock
};

}  // namespace heed

#endif  // HEED_SERVER_CLOCK_H_
