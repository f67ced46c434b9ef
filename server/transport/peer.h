// Who calls, for the log.
#ifndef HEED_SERVER_TRANSPORT_PEER_H_
#define HEED_SERVER_TRANSPORT_PEER_H_

#include <string>

#include "grpcpp/server_context.h"

namespace heed {

// "127.0.0.1:40126", "[::1]:40126"; "unix" of a socket in the file system, whatever its client calls itself;
// empty of the server's own calls to itself.
std::string PeerOf(const grpc::CallbackServerContext& context);

}  // namespace heed

#endif  // HEED_SERVER_TRANSPORT_PEER_H_
