#include "server/stream_buffer.h"

#include <algorithm>
#include <utility>

namespace heed {

StreamBuffer::StreamBuffer(std::function<void()> ready, StreamLimits limits)
    : ready_(std::move(ready)), limits_(limits) {}

bool StreamBuffer::full() const {
  std::lock_guard lock(mutex_);
  return Full();
}

int64_t StreamBuffer::tokens() const {
  std::lock_guard lock(mutex_);
  return tokens_;
}

int64_t StreamBuffer::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

void StreamBuffer::AddProducer(std::weak_ptr<Job> job) {
  std::lock_guard lock(mutex_);
  producers_.push_back(std::move(job));
}

void StreamBuffer::Add(StreamEvent event) {
  {
    std::lock_guard lock(mutex_);
    if (const auto* piece = std::get_if<Piece>(&event.what)) {
      tokens_ += std::ssize(piece->tokens);
      bytes_ += std::ssize(piece->text);
    }
    if (!Join(event)) events_.push_back(std::move(event));
  }
  if (ready_) ready_();
}

bool StreamBuffer::Join(StreamEvent& event) {
  auto last = std::find_if(events_.rbegin(), events_.rend(), [&](const StreamEvent& waiting) {
    return waiting.input == event.input && waiting.sample == event.sample;
  });
  auto* added = std::get_if<Piece>(&event.what);
  auto* piece = last == events_.rend() ? nullptr : std::get_if<Piece>(&last->what);
  if (!added || !piece) return false;
  piece->text += added->text;
  std::ranges::move(added->tokens, std::back_inserter(piece->tokens));
  return true;
}

std::optional<StreamEvent> StreamBuffer::Next() {
  std::vector<std::weak_ptr<Job>> wake;
  std::optional<StreamEvent> event;
  {
    std::lock_guard lock(mutex_);
    if (events_.empty()) return std::nullopt;
    event = std::move(events_.front());
    events_.pop_front();
    const bool was_full = Full();
    if (const auto* piece = std::get_if<Piece>(&event->what)) {
      tokens_ -= std::ssize(piece->tokens);
      bytes_ -= std::ssize(piece->text);
    }
    if (was_full && !Full()) wake = producers_;
  }
  for (const std::weak_ptr<Job>& producer : wake) {
    if (const std::shared_ptr<Job> job = producer.lock()) job->Wake();
  }
  return event;
}

}  // namespace heed
