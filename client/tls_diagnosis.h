// Why no connection to a server comes about that TLS has to do with: gRPC 1.51 says no more than that there
// was none.
#ifndef HEED_CLIENT_TLS_DIAGNOSIS_H_
#define HEED_CLIENT_TLS_DIAGNOSIS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/credentials.h"

namespace heed {

// Makes one more connection to `address`, and looks: nothing is sent on it but TLS's handshake. Three
// seconds at most for each step. `tls`: what the client has; none: it speaks plain HTTP/2.
//
// OK if it has found nothing, as where nobody listens. Else UNAVAILABLE with a sentence and, as the reason
// that DetailsOf() gives:
//   TLS_WANTED                  the server speaks TLS, the client does not
//   TLS_NOT_SPOKEN              the other way round
//   CERTIFICATE_EXPIRED         the server's; or it is not valid yet
//   CERTIFICATE_OF_ANOTHER      it is for other names
//   CERTIFICATE_NOT_TRUSTED     no authority that the client believes has signed it
//   CLIENT_CERTIFICATE_WANTED   the server asks for one, the client has none
//   CLIENT_CERTIFICATE_REFUSED  the server has been shown one, and hung up
absl::Status DiagnoseTls(const std::string& address, const std::optional<ClientTls>& tls);

}  // namespace heed

#endif  // HEED_CLIENT_TLS_DIAGNOSIS_H_
