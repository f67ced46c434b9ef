// What is read from files, and read again when they change: certificates, tokens. A change that is wrong
// changes nothing: what was read before stays, and somebody is told.
#ifndef HEED_SERVER_RELOADED_H_
#define HEED_SERVER_RELOADED_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "engine/base/status.h"
#include "server/caught.h"
#include "server/clock.h"

namespace heed {

// Thread-safe.
template <typename T>
class Reloaded {
 public:
  struct Source {
    std::vector<std::string> paths;  // what is looked at; empty ones are left out
    std::function<absl::StatusOr<T>()> read;
    std::function<void(const absl::Status&)> told;  // how reading again has gone, each time
  };

  // The error of the first reading.
  static absl::StatusOr<std::unique_ptr<Reloaded>> Read(Source source, const Clock* clock = &Clock::Real()) {
    auto reloaded = std::make_unique<Reloaded>(std::move(source), clock);
    reloaded->stamps_ = reloaded->Stamps();
    ASSIGN_OR_RETURN(T value, reloaded->source_.read());
    reloaded->value_ = std::make_shared<const T>(std::move(value));
    return reloaded;
  }
  Reloaded(Source source, const Clock* clock) : source_(std::move(source)), clock_(clock) {}

  // What was read last. Looks at the files, at most once a second. Throws nothing but for want of memory.
  std::shared_ptr<const T> Now() {
    constexpr Duration kEvery = std::chrono::seconds(1);
    std::lock_guard lock(mutex_);
    if (clock_->Now() < next_look_) return value_;
    next_look_ = clock_->Now() + kEvery;
    if (std::vector<FileStamp> stamps = Stamps(); stamps != stamps_) {
      stamps_ = std::move(stamps);  // before reading: what is written meanwhile is seen next time
      source_.told(ReadAgain());
    }
    return value_;
  }

 private:
  std::vector<FileStamp> Stamps() const {
    std::vector<FileStamp> stamps;
    for (const std::string& path : source_.paths) {
      if (!path.empty()) stamps.push_back(StampOf(path));
    }
    return stamps;
  }

  absl::Status ReadAgain() {
    const auto read = [this]() -> absl::Status {
      ASSIGN_OR_RETURN(T value, source_.read());
      value_ = std::make_shared<const T>(std::move(value));
      return absl::OkStatus();
    };
    return Caught("it could not be read", read, nullptr);
  }

  const Source source_;
  const Clock* const clock_;
  std::mutex mutex_;  // guards the rest
  Time next_look_{};
  std::vector<FileStamp> stamps_;
  std::shared_ptr<const T> value_;
};

}  // namespace heed

#endif  // HEED_SERVER_RELOADED_H_
