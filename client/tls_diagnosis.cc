#include "client/tls_diagnosis.h"

#include <arpa/inet.h>

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "client/dial.h"
#include "client/grpc_status.h"
#include "engine/base/status.h"
#include "engine/base/x509.h"
#include "openssl/err.h"
#include "openssl/ssl.h"
#include "openssl/x509v3.h"

namespace heed {
namespace {

using ContextPtr = std::unique_ptr<SSL_CTX, FreedBy<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, FreedBy<SSL_free>>;

// A handshake, whose bytes go through the connection by hand: OpenSSL's own writing would end the process
// where the other side has hung up (SIGPIPE).
class Handshake {
 public:
  Handshake(Connection connection, const std::string& host, const ClientTls& tls);

  // Goes on until the handshake is over, and to what the server does then: it looks at the client's
  // certificate only when the client is done.
  void Run();

  const X509* certificate() const { return SSL_get0_peer_certificate(ssl_.get()); }  // the server's; or null
  long verified() const { return SSL_get_verify_result(ssl_.get()); }
  bool asked() const { return asked_; }  // for a certificate of the client
  bool answered() const { return answered_; }
  bool hung_up() const { return failed_ || connection_.closed(); }

 private:
  static int Asked(SSL*, void* self) {
    static_cast<Handshake*>(self)->asked_ = true;
    return 1;
  }
  void Trust(const std::string& authority);
  void Show(const ClientTls& tls);
  template <typename Step>
  bool Repeat(Step step);
  bool Flush();

  Connection connection_;
  const ContextPtr context_{SSL_CTX_new(TLS_client_method())};
  const SslPtr ssl_{SSL_new(context_.get())};
  BIO* const in_ = BIO_new(BIO_s_mem());  // these two are the SSL's
  BIO* const out_ = BIO_new(BIO_s_mem());
  bool asked_ = false, answered_ = false, failed_ = false;
};

Handshake::Handshake(Connection connection, const std::string& host, const ClientTls& tls)
    : connection_(std::move(connection)) {
  SSL* ssl = ssl_.get();
  SSL_set_bio(ssl, in_, out_);
  SSL_set_min_proto_version(ssl, TLS1_2_VERSION);
  SSL_set_tlsext_host_name(ssl, host.c_str());
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) != 1) SSL_set1_host(ssl, host.c_str());
  const unsigned char http2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(ssl, http2, sizeof(http2));
  SSL_set_verify(ssl, SSL_VERIFY_NONE, nullptr);  // verified() has the result, and the handshake goes on
  SSL_set_cert_cb(ssl, Asked, this);
  Trust(tls.authority);
  Show(tls);
  SSL_set_connect_state(ssl);
}

void Handshake::Trust(const std::string& authority) {
  SSL_CTX_set_default_verify_paths(context_.get());
  if (authority.empty()) return;
  const auto trusted = ParseCertificates(authority);
  X509_STORE* store = X509_STORE_new();
  if (trusted.ok()) {
    for (const X509Ptr& each : *trusted) X509_STORE_add_cert(store, each.get());
  }
  SSL_set0_verify_cert_store(ssl_.get(), store);
}

void Handshake::Show(const ClientTls& tls) {
  const auto chain = ParseCertificates(tls.certificate);
  const auto key = ParseKey(tls.key);
  if (!chain.ok() || !key.ok()) return;
  SSL_use_certificate(ssl_.get(), chain->front().get());
  SSL_use_PrivateKey(ssl_.get(), key->get());
  for (size_t i = 1; i < chain->size(); ++i) SSL_add1_chain_cert(ssl_.get(), (*chain)[i].get());
}

bool Handshake::Flush() {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out_, &bytes);
  const std::string sent(bytes, static_cast<size_t>(size));
  (void)BIO_reset(out_);
  return connection_.Send(sent);
}

// The step, while it wants bytes and gets some. True if it succeeds.
template <typename Step>
bool Handshake::Repeat(Step step) {
  while (true) {
    ERR_clear_error();
    const int result = step();
    const bool wants = SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ;
    const bool sent = Flush();
    failed_ = result != 1 && !(wants && sent);
    if (failed_ || result == 1) return !failed_;
    const std::string bytes = connection_.Receive();
    if (bytes.empty()) return false;
    answered_ = true;
    BIO_write(in_, bytes.data(), static_cast<int>(bytes.size()));
  }
}

void Handshake::Run() {
  if (!Repeat([this] { return SSL_do_handshake(ssl_.get()); })) return;
  char byte;
  Repeat([&] { return SSL_read(ssl_.get(), &byte, 1); });
}

// "localhost, 10.0.0.1": whom a certificate is for.
std::string NamesOf(const X509& certificate) {
  const std::unique_ptr<GENERAL_NAMES, FreedBy<GENERAL_NAMES_free>> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> texts;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS && name->type != GEN_IPADD) continue;
    const ASN1_STRING* value = name->type == GEN_DNS ? name->d.dNSName : name->d.iPAddress;
    const unsigned char* bytes = ASN1_STRING_get0_data(value);
    const int size = ASN1_STRING_length(value);
    char ip[INET6_ADDRSTRLEN] = "an IP address";
    if (name->type == GEN_IPADD && size == 4) inet_ntop(AF_INET, bytes, ip, sizeof(ip));
    if (name->type == GEN_IPADD && size == 16) inet_ntop(AF_INET6, bytes, ip, sizeof(ip));
    texts.push_back(name->type == GEN_DNS ? std::string(bytes, bytes + size) : ip);
  }
  return texts.empty() ? "no name" : absl::StrJoin(texts, ", ");
}

absl::Status Because(const std::string& reason, const std::string& message) {
  v1::Error error;
  error.set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  error.set_reason(reason);
  error.set_message(message);
  return FromError(error);
}

absl::Status OfCertificate(const std::string& address, const Handshake& handshake) {
  const X509& certificate = *handshake.certificate();
  const std::string its = Cat("the certificate of the server at ", address);
  switch (handshake.verified()) {
    case X509_V_OK:
      return absl::OkStatus();
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return Because("CERTIFICATE_EXPIRED",
                     Cat(its, " has expired on ", DayOf(X509_get0_notAfter(&certificate))));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return Because("CERTIFICATE_EXPIRED",
                     Cat(its, " is not valid before ", DayOf(X509_get0_notBefore(&certificate))));
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return Because("CERTIFICATE_OF_ANOTHER",
                     Cat(its, " is for ", NamesOf(certificate), ", not for ", HostOf(address)));
    default:
      return Because("CERTIFICATE_NOT_TRUSTED",
                     Cat("no authority that is trusted here has signed ", its, ": ",
                         X509_verify_cert_error_string(handshake.verified())));
  }
}

absl::Status OfClient(const std::string& address, const ClientTls& tls) {
  if (tls.certificate.empty()) {
    return Because("CLIENT_CERTIFICATE_WANTED",
                   Cat("the server at ", address, " wants a certificate of its clients, and there is none"));
  }
  std::string why;
  if (const auto chain = ParseCertificates(tls.certificate); chain.ok()) {
    const ASN1_TIME* end = X509_get0_notAfter(chain->front().get());
    if (X509_cmp_current_time(end) < 0) why = Cat(": it has expired on ", DayOf(end));
  }
  return Because("CLIENT_CERTIFICATE_REFUSED",
                 Cat("the server at ", address, " does not take the client's certificate", why));
}

}  // namespace

absl::Status DiagnoseTls(const std::string& address, const std::optional<ClientTls>& tls) {
  auto connection = Connection::Dial(address);
  if (!connection) return absl::OkStatus();
  const ClientTls shown = tls.value_or(ClientTls());
  Handshake handshake(*std::move(connection), HostOf(address), shown);
  handshake.Run();
  if (handshake.certificate() == nullptr) {
    if (!tls || !handshake.answered()) return absl::OkStatus();
    return Because("TLS_NOT_SPOKEN", Cat("the server at ", address, " answers, but not in TLS 1.2 or 1.3"));
  }
  if (!tls)
    return Because("TLS_WANTED", Cat("the server at ", address, " speaks TLS, and is called without"));
  if (absl::Status status = OfCertificate(address, handshake); !status.ok()) return status;
  return handshake.asked() && handshake.hung_up() ? OfClient(address, *tls) : absl::OkStatus();
}

}  // namespace heed
