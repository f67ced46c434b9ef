// Who gets in: TLS of the port and bearer tokens, as the config says, read again when their files change.
#ifndef HEED_SERVER_SERVICE_ACCESS_H_
#define HEED_SERVER_SERVICE_ACCESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "heed/config/v1/config.pb.h"
#include "server/reloaded.h"
#include "server/tokens.h"
#include "server/transport/tls.h"

namespace heed {

struct Access {
  std::unique_ptr<PortTls> tls;                           // null: plain HTTP/2
  std::unique_ptr<Reloaded<KnownTokens>> tokens;          // null: whoever calls
  std::unique_ptr<Reloaded<KnownTokens>> metrics_tokens;  // null: whoever asks for GET /metrics

  // Whether who shows these may read metrics, where tokens are wanted for that. Throws nothing.
  bool MayReadMetrics(const std::string& name, const std::string& token) const;

  // Tells when the port's certificate expires, in seconds since 1970, as long as this lives; null without
  // TLS.
  std::function<int64_t()> CertificateExpiry() const;
};

// INVALID_ARGUMENT with the field, the file and what is wrong with it. What happens to the files later, the
// log tells.
absl::StatusOr<Access> OpenAccess(const config::v1::ServerConfig& config);

}  // namespace heed

#endif  // HEED_SERVER_SERVICE_ACCESS_H_
