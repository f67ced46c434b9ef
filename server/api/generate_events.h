// What of a stream's events is told, and how the call ends: errors wait until something has started. If
// nothing does, none is told, and the one that the caller can best act on is the call's own.
#ifndef HEED_SERVER_API_GENERATE_EVENTS_H_
#define HEED_SERVER_API_GENERATE_EVENTS_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/status/status.h"
#include "server/stream_buffer.h"

namespace heed {

class GenerateEvents {
 public:
  // So many samples, each of which finishes or fails once.
  explicit GenerateEvents(int64_t samples) : samples_(samples) {}

  void Add(StreamEvent event);
  // The next to be told, if there is one now.
  std::optional<StreamEvent> Next();
  // When all samples have ended and all is told: OK if any has finished.
  std::optional<absl::Status> end() const;

 private:
  int64_t samples_;  // that have not ended
  std::deque<StreamEvent> waiting_;
  bool started_ = false;
  bool finished_ = false;  // one of them
  absl::Status error_;     // the best to act on
};

}  // namespace heed

#endif  // HEED_SERVER_API_GENERATE_EVENTS_H_
