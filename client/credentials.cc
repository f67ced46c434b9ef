#include "client/credentials.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/strings/ascii.h"
#include "engine/base/certificates.h"
#include "engine/base/file.h"
#include "engine/base/status.h"

namespace heed {

absl::StatusOr<ClientTls> ReadTls(const TlsFiles& files) {
  ClientTls tls;
  if (!files.authority.empty()) {
    ASSIGN_OR_RETURN(tls.authority, ReadCertificates("tls_authority", files.authority));
  }
  if (files.certificate.empty() != files.key.empty()) {
    const std::string_view missing = files.key.empty() ? "tls_key" : "tls_certificate";
    return Invalid(missing, " is empty: a client that shows a certificate needs its key, too");
  }
  if (files.certificate.empty()) return tls;
  ASSIGN_OR_RETURN(tls.certificate, ReadCertificates("tls_certificate", files.certificate));
  ASSIGN_OR_RETURN(tls.key, ReadKey("tls_key", files.key, tls.certificate));
  return tls;
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  constexpr int64_t kMostBytes = 1 << 20;  // of the file, with what is around its token
  constexpr size_t kMostToken = 4096;
  constexpr std::string_view kOthers = "._~+/=-";
  ASSIGN_OR_RETURN(const std::string text, ReadFileOf("token_file", path, kMostBytes));
  const std::string token(absl::StripAsciiWhitespace(text));
  const bool good = std::ranges::all_of(token, [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || kOthers.find(c) != kOthers.npos;
  });
  if (good && !token.empty() && token.size() <= kMostToken) return token;
  return Invalid("token_file is '", path, "': it has ", token.size(), " bytes, it must be one token, 1 to ",
                 kMostToken, " of [A-Za-z0-9._~+/=-]");
}

std::shared_ptr<grpc::ChannelCredentials> ToGrpc(const std::optional<ClientTls>& tls) {
  if (!tls) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials(
      {.pem_root_certs = tls->authority, .pem_private_key = tls->key, .pem_cert_chain = tls->certificate});
}

}  // namespace heed
