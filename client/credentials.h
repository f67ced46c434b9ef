// What a client shows to its server and believes of it, read from files and checked.
#ifndef HEED_CLIENT_CREDENTIALS_H_
#define HEED_CLIENT_CREDENTIALS_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "grpcpp/security/credentials.h"

namespace heed {

// The texts of TlsFiles.
struct ClientTls {
  std::string authority, certificate, key;
};

// INVALID_ARGUMENT with the field, the file and what is wrong with it.
absl::StatusOr<ClientTls> ReadTls(const TlsFiles& files);

// The token of a file, without the spaces and line ends around it; INVALID_ARGUMENT, which has nothing of it,
// if it is none: 1 to 4096 of [A-Za-z0-9._~+/=-].
absl::StatusOr<std::string> ReadToken(const std::string& path);

// As gRPC takes it; none: plain HTTP/2.
std::shared_ptr<grpc::ChannelCredentials> ToGrpc(const std::optional<ClientTls>& tls);

}  // namespace heed

#endif  // HEED_CLIENT_CREDENTIALS_H_
