#include "server/transport/peer.h"

#include <string_view>

#include "absl/strings/str_replace.h"

namespace heed {

// gRPC gives a URI, in which an address's brackets and percent signs are escaped.
std::string PeerOf(const grpc::CallbackServerContext& context) {
  const std::string uri = context.peer();
  const std::string_view scheme = std::string_view(uri).substr(0, uri.find(':'));
  if (scheme == "unix" || scheme == "unix-abstract") return "unix";
  if (scheme != "ipv4" && scheme != "ipv6") return "";
  return absl::StrReplaceAll(uri.substr(scheme.size() + 1), {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

}  // namespace heed
