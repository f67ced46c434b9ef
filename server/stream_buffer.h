// The bounded backlog between generations and the one reader of their stream. Engine threads never wait for a
// reader: what it has not read yet lies here, pieces of one text joined, and while the backlog is full the
// jobs behind it pause.
//
//   producers: if (!buffer->full()) { ... buffer->Add(event); }
//   reader:    while (auto event = buffer->Next()) Write(*event);   // and again whenever `ready` was called
#ifndef HEED_SERVER_STREAM_BUFFER_H_
#define HEED_SERVER_STREAM_BUFFER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "engine/generation/sampling.h"
#include "server/job.h"

namespace heed {

struct Started {
  int64_t input_tokens = 0;
  uint64_t seed = 0;
};

// Some tokens and the text that became certain with them. Joined, the texts are the text; one may be empty,
// and a text may wait for a later piece than its tokens (half a character, what may begin a stop string).
struct Piece {
  std::string text;
  std::vector<TokenChoice> tokens;
};

struct Finished {
  enum class Reason { kEndToken, kStopString, kMaxTokens };
  Reason reason = Reason::kMaxTokens;
  std::string stop_string;            // which one matched
  std::optional<int32_t> stop_token;  // of kEndToken: which one
  Usage usage;
  std::optional<double> score;  // of a beam search's hypothesis
};

// What happens to one sample of one input: started, pieces, then finished or an error, once.
struct StreamEvent {
  int input = 0;
  int sample = 0;
  std::variant<Started, Piece, Finished, absl::Status> what;
};

struct StreamLimits {
  int64_t tokens = 256;
  int64_t bytes = 64 << 10;  // of text
};

// Thread-safe. Shared by the reader and the jobs of one stream, in shared_ptr: they end at different times.
class StreamBuffer {
 public:
  // `ready` is called after every Add, from its thread, without a lock held: the reader may come. It must be
  // quick.
  explicit StreamBuffer(std::function<void()> ready, StreamLimits limits = {});

  // A producer asks this before each step, so the backlog exceeds its limits by the events of one step at
  // most.
  bool full() const;
  // Always takes the event. A piece joins the one that still waits for the same sample.
  void Add(StreamEvent event);
  // A job to wake when there is room again.
  void AddProducer(std::weak_ptr<Job> job);

  // The oldest event, if any. Wakes the producers when the buffer was full and is no longer.
  std::optional<StreamEvent> Next();

  int64_t tokens() const;  // waiting
  int64_t bytes() const;

 private:
  bool Full() const { return tokens_ >= limits_.tokens || bytes_ >= limits_.bytes; }
  bool Join(StreamEvent& event);

  const std::function<void()> ready_;
  const StreamLimits limits_;
  mutable std::mutex mutex_;  // guards all below
  std::deque<StreamEvent> events_;
  std::vector<std::weak_ptr<Job>> producers_;
  int64_t tokens_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace heed

#endif  // HEED_SERVER_STREAM_BUFFER_H_
