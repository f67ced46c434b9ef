// heed health: whether a server, or one of its models, is ready: the container's health check. Exit status 0:
// it is.
#include "client/cli/call.h"
#include "client/cli/command.h"

namespace heed::cli {

int Health(Arguments& arguments, Terminal& terminal) {
  std::string model;
  arguments.Flag("model", &model, "of this model; empty: of the server");
  ServerFlags server(arguments, absl::Seconds(5));
  if (std::optional<int> ended = arguments.Parse(terminal, 0)) return *ended;

  const absl::StatusOr<Client> client = server.Connect();
  if (!client.ok()) return Fail(terminal, client.status());
  const auto status = client->Health(model, server.Options(terminal));
  if (!status.ok()) return FailCall(terminal, status.status(), *client, model);
  using grpc::health::v1::HealthCheckResponse;
  HealthCheckResponse response;
  response.set_status(*status);
  terminal.out << (server.json ? ToJson(response) : HealthCheckResponse::ServingStatus_Name(*status)) << "\n";
  return Finish(terminal, *status == HealthCheckResponse::SERVING ? kDone : kFailed);
}

}  // namespace heed::cli
