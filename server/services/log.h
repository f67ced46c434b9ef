// The server's log: one line of JSON an event, on stderr. Events and fields are ours: no text of a client is
// ever in them, and whatever is not plain ASCII is escaped.
#ifndef HEED_SERVER_SERVICES_LOG_H_
#define HEED_SERVER_SERVICES_LOG_H_

#include <string_view>

#include "nlohmann/json.hpp"

namespace heed {

using LogFields = nlohmann::ordered_json;

// LogInfo("model loaded", {{"model", name}, {"seconds", 1.5}});
// {"time":"2026-01-31T12:00:00.123Z","severity":"info","event":"model
// loaded","model":"polarity","seconds":1.5}
void LogInfo(std::string_view event, const LogFields& fields = LogFields::object());
void LogError(std::string_view event, const LogFields& fields = LogFields::object());

// What gRPC and protobuf would print: they put clients' bytes in their messages. Of gRPC's, the place is
// logged and the text dropped, ten lines a second at most; protobuf's are dropped.
void TameLibraryLogs();

}  // namespace heed

#endif  // HEED_SERVER_SERVICES_LOG_H_
