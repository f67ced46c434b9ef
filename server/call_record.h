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
  std::optional<Duration> queued;  // the longest wait of one for its first pass; none where none was answered
};

// Thread-safe, and little beside what it counts.
class CallRecord {
 public:
  // A served model's own name, which outlives all calls: never what a client has written.
  void Asks(std::string_view model) {
    std::lock_guard lock(mutex_);
    use_.model = model;
  }
  // What was used besides; of the waits the longest counts. Its model is not looked at.
  void Add(const CallUse& more) {
    std::lock_guard lock(mutex_);
    use_.bytes_in += more.bytes_in;
    use_.bytes_out += more.bytes_out;
    use_.tokens_read += more.tokens_read;
    use_.tokens_made += more.tokens_made;
    use_.queued = std::max(use_.queued, more.queued);
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
