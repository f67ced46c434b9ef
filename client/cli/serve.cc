// heed serve: models over gRPC until SIGTERM or Ctrl-C. The config file says everything; flags say the common
// cases, and win.
#include <signal.h>

#include "client/cli/command.h"
#include "server/config/config.h"
#include "server/service/server.h"

namespace heed::cli {
namespace {

struct ServeFlags {
  explicit ServeFlags(Arguments& arguments);
  // The file's config, if one is named, with the flags over it.
  absl::StatusOr<config::v1::ServerConfig> Config() const;

  std::string config;
  std::optional<std::string> models, address, metrics_address;
  std::optional<std::string> tls_certificate, tls_key, tls_client_authority, tokens, metrics_tokens;
  std::optional<config::v1::Precision> precision;
  std::optional<int32_t> threads;
  std::optional<config::v1::LogLevel> log_level;
  std::optional<bool> access_log, reflection;
  std::optional<std::string> traces_endpoint;
  std::optional<double> traces_sampling;
  std::optional<absl::Duration> grace;
  bool check = false;
};

ServeFlags::ServeFlags(Arguments& arguments) {
  arguments.Flag("config", &config, "a file as proto/heed/config/v1/config.proto says").is_path = true;
  arguments
      .Flag("models", &models, "serve every folder in this one; without it and a config: the shipped models")
      .is_path = true;
  arguments.Flag("address", &address,
                 Cat("HOST:PORT of gRPC; unset: ", config::v1::ServerConfig().address()));
  arguments.Flag("metrics_address", &metrics_address,
                 Cat("HOST:PORT of GET /metrics, empty for none; unset: ",
                     config::v1::ServerConfig().metrics_address()));
  arguments.Flag("tls_certificate", &tls_certificate, "PEM file: the port speaks TLS, with this certificate")
      .is_path = true;
  arguments.Flag("tls_key", &tls_key, "PEM file: the certificate's key").is_path = true;
  arguments
      .Flag("tls_client_authority", &tls_client_authority,
            "PEM file: clients must show a certificate that one of these authorities has signed")
      .is_path = true;
  arguments
      .Flag("tokens", &tokens,
            "a file of tokens, TokensConfig in config.proto: who calls must show one that is good for it")
      .is_path = true;
  arguments
      .Flag("metrics_tokens", &metrics_tokens,
            "the same for GET /metrics: a token's name is the user, the token the password")
      .is_path = true;
  arguments.Flag("threads", &threads, "threads that compute; 0 or unset: as many as this process has CPUs",
                 {0, 1024});
  arguments.Choice("precision", &precision, "auto, f32, bf16 or int8, of models that name none",
                   {{"auto", config::v1::PRECISION_AUTO},
                    {"f32", config::v1::PRECISION_F32},
                    {"bf16", config::v1::PRECISION_BF16},
                    {"int8", config::v1::PRECISION_INT8}});
  arguments.Flag("reflection", &reflection, "whether tools may ask which services there are; unset: yes");
  arguments.Choice("log_level", &log_level, "what stderr is told: this and what is more severe; unset: info",
                   {{"debug", config::v1::LOG_LEVEL_DEBUG},
                    {"info", config::v1::LOG_LEVEL_INFO},
                    {"warning", config::v1::LOG_LEVEL_WARNING},
                    {"error", config::v1::LOG_LEVEL_ERROR}});
  arguments.Flag("access_log", &access_log, "tell stderr of each call, too: one line when it has ended");
  arguments.Flag(
      "traces_endpoint", &traces_endpoint,
      "http://HOST:PORT of a collector that takes OTLP over gRPC, https for TLS; unset: no traces");
  arguments.Flag("traces_sampling", &traces_sampling,
                 "the share of calls that are traced, where their callers do not say; unset: 1, all", {0, 1});
  arguments.Flag("grace", &grace, "time to finish what is admitted after SIGTERM, at most 1h", {0, 3600});
  arguments.Flag("check", &check, "check the config and the models, and serve nothing");
}

absl::StatusOr<config::v1::ServerConfig> ServeFlags::Config() const {
  config::v1::ServerConfig result;
  if (!config.empty()) {
    ASSIGN_OR_RETURN(result, ReadConfig(config));
  }
  if (models) result.set_models_folder(*models);
  if (address) result.set_address(*address);
  if (metrics_address) result.set_metrics_address(*metrics_address);
  if (tls_certificate) result.mutable_tls()->set_certificate(*tls_certificate);
  if (tls_key) result.mutable_tls()->set_key(*tls_key);
  if (tls_client_authority) result.mutable_tls()->set_client_authority(*tls_client_authority);
  if (tokens) result.set_tokens(*tokens);
  if (metrics_tokens) result.set_metrics_tokens(*metrics_tokens);
  if (threads) result.set_threads(*threads);
  if (reflection) result.set_reflection(*reflection);
  if (log_level) result.mutable_log()->set_level(*log_level);
  if (access_log) result.mutable_log()->set_access(*access_log);
  if (traces_endpoint) result.mutable_traces()->set_endpoint(*traces_endpoint);
  if (traces_sampling) result.mutable_traces()->set_sampling_ratio(*traces_sampling);
  if (grace) result.mutable_shutdown()->set_grace_seconds(absl::ToDoubleSeconds(*grace));
  if (precision) result.set_precision(*precision);
  return result;
}

int Check(const config::v1::ServerConfig& config, Terminal& terminal) {
  const absl::StatusOr<std::string> report = CheckServer(config);
  if (!report.ok()) return Fail(terminal, report.status());
  terminal.out << *report;
  return Finish(terminal, kDone);
}

}  // namespace

int Serve(Arguments& arguments, Terminal& terminal) {
  ServeFlags flags(arguments);
  if (std::optional<int> ended = arguments.Parse(terminal, 0)) return *ended;
  const absl::StatusOr<config::v1::ServerConfig> config = flags.Config();
  if (!config.ok()) return Fail(terminal, config.status());
  if (flags.check) return Check(*config, terminal);
  signal(SIGPIPE, SIG_IGN);  // a client or a log reader that goes away is no reason to end
  const absl::Status served = RunServer(*config);
  return served.ok() ? kDone : Fail(terminal, served);
}

}  // namespace heed::cli
