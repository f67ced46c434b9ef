// What a call has asked for and used, added up while it goes on: what the access log tells of it.
#ifndef HEED_SERVER_CALL_RECORD_H_
#define HEED_SERVER_CALL_RECORD_H_

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>

#include "server/clock.h"

namespace heed {

struct CallUse {
  std::string_view model;                    // a served one's name; empty where the call has come to none
  int64_t bytes_in = 0, bytes_out = 0;       // of its messages
  int64_t tokens_read = 0, tokens_made = 0;  // of its inputs, as far as their answers were made
  std::optional<Duration> queued;            // the longest wait of one; none where none was answered
};

// Thread-safe, and little beside what it counts.
class CallRecord {
 public:
  // A served model's own name, which outlives all calls: never what a client has written.
  void Asks(std::string_view model) {
    std::lock_guard lock(mutex_);
    use_.model = model;
  }
  void Received(int64_t bytes) {
    std::lock_guard lock(mutex_);
    use_.bytes_in += bytes;
  }
  void Sent(int64_t bytes) {
    std::lock_guard lock(mutex_);
    use_.bytes_out += bytes;
  }
  void Read(int64_t tokens) {
    std::lock_guard lock(mutex_);
    use_.tokens_read += tokens;
  }
  void Made(int64_t tokens) {
    std::lock_guard lock(mutex_);
    use_.tokens_made += tokens;
  }
  // An input, from its submission to its first pass.
  void Waited(Duration time) {
    std::lock_guard lock(mutex_);
    use_.queued = std::max(use_.queued.value_or(Duration::zero()), time);
  }

  CallUse use() const {
    std::lock_guard lock(mutex_);
    return use_;
  }

 private:
  mutable std::mutex mutex_;
  CallUse use_;  // guarded by mutex_
};

}  // namespace heed

#endif  // HEED_SERVER_CALL_RECORD_H_
