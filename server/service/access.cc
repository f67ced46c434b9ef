#include "server/service/access.h"

#include <string>
#include <string_view>

#include "engine/base/certificates.h"
#include "engine/base/file.h"
#include "engine/base/status.h"
#include "server/caught.h"
#include "server/config/tokens.h"
#include "server/observation/log.h"

namespace heed {
namespace {

// How reading changed files has gone.
void Tell(std::string_view what, const absl::Status& status) {
  if (status.ok()) return LogInfo("files read again", {{"what", what}});
  LogError("changed files not taken", {{"what", what}, {"error", std::string(status.message())}});
}

// That a certificate has expired is for clients to say no to: no server at all would help them less.
void TellDates(const config::v1::TlsConfig& tls) {
  const auto text = ReadTls(tls);
  if (!text.ok()) return;
  if (const absl::Status dates = CheckDates(text->certificate); !dates.ok()) {
    LogError("tls certificate", {{"file", tls.certificate()}, {"error", std::string(dates.message())}});
  }
}

absl::StatusOr<std::unique_ptr<Reloaded<KnownTokens>>> OpenTokens(std::string_view field,
                                                                  const std::string& path) {
  const auto read = [field, path]() -> absl::StatusOr<KnownTokens> {
    auto tokens = ReadTokens(path);
    if (tokens.ok()) return tokens;
    return WrongFile(field, path, tokens.status());
  };
  const auto told = [field](const absl::Status& status) { Tell(field, status); };
  return Reloaded<KnownTokens>::Read({.paths = {path}, .read = read, .told = told});
}

}  // namespace

bool Access::MayReadMetrics(const std::string& name, const std::string& token) const {
  bool may = false;
  const auto look = [&] {
    may = heed::MayReadMetrics(*metrics_tokens->Now(), name, token);
    return absl::OkStatus();
  };
  return Caught("the token could not be looked at", look, nullptr).ok() && may;
}

std::function<int64_t()> Access::CertificateExpiry() const {
  if (tls == nullptr) return nullptr;
  return [this] { return ExpiryOf(tls->Now()->certificate).value_or(0); };
}

absl::StatusOr<Access> OpenAccess(const config::v1::ServerConfig& config) {
  Access access;
  if (config.has_tls()) {
    const auto told = [tls = config.tls()](const absl::Status& status) {
      Tell("tls", status);
      if (status.ok()) TellDates(tls);
    };
    ASSIGN_OR_RETURN(access.tls, PortTls::Read(config.tls(), told));
    TellDates(config.tls());
  }
  if (!config.tokens().empty()) {
    ASSIGN_OR_RETURN(access.tokens, OpenTokens("tokens", config.tokens()));
  }
  if (!config.metrics_tokens().empty()) {
    ASSIGN_OR_RETURN(access.metrics_tokens, OpenTokens("metrics_tokens", config.metrics_tokens()));
  }
  return access;
}

}  // namespace heed
