// Which text of a message is not UTF-8. protobuf refuses such a message as a whole, and tells nobody but its
// log why.
#ifndef HEED_SERVER_TRANSPORT_UTF8_H_
#define HEED_SERVER_TRANSPORT_UTF8_H_

#include <string>

#include "google/protobuf/descriptor.h"

namespace heed {

// The first `string` field of a serialized message that is not UTF-8, as "inputs[2].text"; of a map's keys
// and values, the map. Empty if all are, or where the bytes are no message.
std::string FieldNotUtf8(const google::protobuf::Descriptor& type, const std::string& bytes);

}  // namespace heed

#endif  // HEED_SERVER_TRANSPORT_UTF8_H_
