// The service's edge, whatever the protocol. Every call of every method passes here, in and out: it is
// counted, refused when the server stops or has too many, and given the threads it may use. The protocol's
// own threads do no work: a reaction only hands on.
#ifndef HEED_SERVER_EDGE_H_
#define HEED_SERVER_EDGE_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/call_record.h"
#include "server/caught.h"
#include "server/clock.h"
#include "server/reloaded.h"
#include "server/tokens.h"
#include "server/trace.h"
#include "server/workers.h"

namespace heed {

// One of kMethods (server/methods.h).
struct Method {
  int index = 0;             // there
  std::string_view service;  // "heed.v1.Inference"
  std::string_view name;     // "Classify"
  bool streams = false;      // its answer is a stream
  bool health = false;       // answered always: it says how the server is, and keeps nobody from stopping
};

// A call whose answer may be on its way to a client that does not read.
class Stallable {
 public:
  virtual ~Stallable() = default;
  // Ends the call if what it writes has been on its way since then or longer. Any thread.
  virtual void EndIfStalledSince(Time time) = 0;
};

struct EdgeOptions {
  int requests = 1024;                               // at a time
  Duration longest_call = std::chrono::minutes(10);  // also of a call without a deadline
  Duration stall = std::chrono::seconds(30);         // of a client that does not read
  int intake_threads = 2;
  int answer_threads = 2;
  Reloaded<KnownTokens>* tokens =
      nullptr;  // one of which a call must show, but for health; null: it needs none
};

// A call that has ended, as whoever is told of it sees it: nothing here outlives the telling.
struct EndedCall {
  const Method& method;
  const absl::Status& status;
  Duration took{};
  std::string_view request_id;
  CallUse use;
  std::string_view peer;   // "127.0.0.1:40126", where EdgeEvents::peers; empty: the server itself
  Trace* trace = nullptr;  // null: it has none
};

// What passes the edge, for metrics and logs. Called from any thread; must be quick.
struct EdgeEvents {
  std::function<void(const Method& method)> started;        // its request is there
  std::function<void(const absl::Status& status)> refused;  // by Enter()
  std::function<void(const Method& method)> sent;           // a message of its answer; throws nothing
  std::function<void(const EndedCall& call)> handled;
  std::function<void(const EndedCall& call)> unknown;  // of a method that is none of kMethods
  bool peers = false;  // these two want EndedCall::peer, which costs a string a call
  // A call's trace, at its beginning; null: this one has none. Unset: no call has one.
  std::function<std::shared_ptr<Trace>(const Method& method, Time arrival, const TraceHeaders& headers)>
      trace;
  // Something done for a call has thrown; the id is empty where it is not known whose it was.
  std::function<void(std::string_view what, std::string_view request_id)> failed;
};

// Thread-safe. What its threads were given has run when it goes, and nobody gives them more: the calls and
// the schedulers have ended.
class Edge {
 public:
  Edge(const Clock* clock, const EdgeOptions& options, EdgeEvents events = {});

  // A call begins, and ends: each Enter() is followed by one Leave(), also when it refused. UNAVAILABLE when
  // closed, RESOURCE_EXHAUSTED when there are too many.
  absl::Status Enter(const Method& method);
  void Sent(const Method& method) const;  // a message of the answer is on its way
  void Leave(const EndedCall& call);
  // Tells of a call that never entered, since nobody has its method.
  void Unknown(const EndedCall& call) const;

  // Whether calls are traced: to be asked before their headers are read.
  bool traces() const { return events_.trace != nullptr; }
  // The trace of a call that begins, where calls are traced; null: this one has none, as no health call has.
  std::shared_ptr<Trace> TraceOf(const Method& method, Time arrival, const TraceHeaders& headers) const;

  // Does what a call wants in this thread. What it throws is told, and becomes the status.
  absl::Status Try(absl::FunctionRef<void()> body, std::string_view request_id = "") const;

  void Close();  // from here on, calls are refused; those inside go on
  // Until all work inside has left; until health calls have, too. Or until the time.
  void WaitUntilDone(Time until);
  void WaitUntilEmpty(Time until);
  int64_t inside() const;  // without health calls

  // Calls that may stall. Sweep() ends those whose client has not taken a message for options.stall.
  void Track(std::weak_ptr<Stallable> call);
  void Untrack(const std::weak_ptr<Stallable>& call);
  void Sweep();

  const Clock& clock() const { return *clock_; }
  bool peers() const { return events_.peers; }  // whether those who are told of calls want to know whose
  Duration longest_call() const { return options_.longest_call; }
  Duration stall() const { return options_.stall; }
  Reloaded<KnownTokens>* tokens() const { return options_.tokens; }
  Workers& intake() { return intake_; }    // reads requests and tokenises
  Workers& answers() { return answers_; }  // builds and writes whole answers
  Workers& streams() { return streams_; }  // writes pieces of streams, which no large answer holds up

 private:
  absl::Status Admit(const Method& method);

  const Clock* const clock_;
  const EdgeOptions options_;
  const EdgeEvents events_;
  mutable std::mutex mutex_;  // guards the next five
  std::condition_variable left_;
  int64_t inside_ = 0;
  int64_t asking_ = 0;  // calls for health
  bool closed_ = false;
  std::set<std::weak_ptr<Stallable>, std::owner_less<>> tracked_;
  // Last, since their tasks use the rest; and each after those that its tasks give tasks to.
  Workers streams_, answers_, intake_;
};

}  // namespace heed

#endif  // HEED_SERVER_EDGE_H_
