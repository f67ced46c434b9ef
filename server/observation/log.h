// The server's log: one line of JSON an event, on stderr. Events and fields are ours: no text of a client is
// ever in them, and whatever is not plain ASCII is escaped.
#ifndef HEED_SERVER_OBSERVATION_LOG_H_
#define HEED_SERVER_OBSERVATION_LOG_H_

#include <string_view>

#include "nlohmann/json.hpp"

namespace heed {

using LogFields = nlohmann::ordered_json;

// LogInfo("model loaded", {{"model", name}, {"seconds", 1.5}});
// {"time":"2026-01-31T12:00:00.123Z","severity":"info","event":"model
// loaded","model":"polarity","seconds":1.5}
void LogInfo(std::string_view event, const LogFields& fields = LogFields::object());
void LogError(std::string_view event, const LogFields& fields = LogFields::object());

}  // namespace heed

#endif  // HEED_SERVER_OBSERVATION_LOG_H_
