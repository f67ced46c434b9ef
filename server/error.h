// What a caller is told beside a code and a message: why, as a stable word; which field is wrong; when to try
// again. Each rides in the status, so whoever finds it says it, and only the API writes it down.
//
//   return Error(ErrorReason::kQueueFull, "the queue of '", name, "' is full, it holds ", most);
//   return AtField(Error(ErrorReason::kInputEmpty, "the text is empty"), "inputs[2].text");
#ifndef HEED_SERVER_ERROR_H_
#define HEED_SERVER_ERROR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/base/status.h"
#include "server/clock.h"

namespace heed {

enum class ErrorReason {
#define REASON(name, text, code) name,
#include "server/reasons.def"
#undef REASON
};

std::string_view Name(ErrorReason reason);    // "QUEUE_FULL"
absl::StatusCode CodeOf(ErrorReason reason);  // RESOURCE_EXHAUSTED

// A status of the reason's code; the parts are its message.
absl::Status WithReason(ErrorReason reason, std::string_view message);
template <typename... Parts>
absl::Status Error(ErrorReason reason, const Parts&... parts) {
  return WithReason(reason, Cat(parts...));
}
// The reason that a status was made with; else the first of its code, INVALID_VALUE of INVALID_ARGUMENT,
// MODEL_ERROR of all codes that have none. The status is not OK.
ErrorReason ReasonOf(const absl::Status& status);

// The same status, naming the request's field that is wrong: "inputs[2].text". OK stays OK. A field that is
// named already stays.
absl::Status AtField(absl::Status status, std::string_view field);
std::string FieldOf(const absl::Status& status);  // empty if none is named
// The same status, whose field, if it names one, is this message's: "version" becomes "target.version".
absl::Status Within(absl::Status status, std::string_view message);

// The same status, telling the caller when to try again: at least 1 ms, at most 60 s.
absl::Status RetryAfter(absl::Status status, Duration wait);
std::optional<Duration> RetryDelayOf(const absl::Status& status);

// The same status, with what its sentence says as a word and a value of its own, for a program: "model",
// "limit". OK stays OK. A word that has a value already keeps it.
absl::Status About(absl::Status status, std::string_view word, std::string_view value);
// Of a number that is too large: "value" and "limit".
absl::Status Beyond(absl::Status status, int64_t value, int64_t limit);
std::map<std::string, std::string> FactsOf(const absl::Status& status);

// Of errors that stand for several: true if `a` tells the caller more of what to do than `b`. One that passes
// by waiting before one that does not, whoever is at fault.
bool MoreActionable(const absl::Status& a, const absl::Status& b);

}  // namespace heed

#endif  // HEED_SERVER_ERROR_H_
