#include "server/api/generate_events.h"

#include <utility>
#include <variant>

#include "server/error.h"

namespace heed {

void GenerateEvents::Add(StreamEvent event) {
  if (const auto* error = std::get_if<absl::Status>(&event.what)) {
    --samples_;
    if (error_.ok() || MoreActionable(*error, error_)) error_ = *error;
  } else {
    started_ = true;
    const bool finished = std::holds_alternative<Finished>(event.what);
    samples_ -= finished ? 1 : 0;
    finished_ |= finished;
  }
  waiting_.push_back(std::move(event));
}

std::optional<StreamEvent> GenerateEvents::Next() {
  if (!started_ || waiting_.empty()) return std::nullopt;
  StreamEvent event = std::move(waiting_.front());
  waiting_.pop_front();
  return event;
}

std::optional<absl::Status> GenerateEvents::end() const {
  if (samples_ > 0 || (started_ && !waiting_.empty())) return std::nullopt;
  return finished_ ? absl::OkStatus() : error_;
}

}  // namespace heed
