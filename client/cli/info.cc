// heed info: what a server is and allows.
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/description.h"

namespace heed::cli {

int Info(Arguments& arguments, Terminal& terminal) {
  ServerFlags server(arguments);
  if (std::optional<int> ended = arguments.Parse(terminal, 0)) return *ended;

  const absl::StatusOr<Client> client = server.Connect();
  if (!client.ok()) return Fail(terminal, client.status());
  const absl::StatusOr<v1::ServerDescription> description = client->DescribeServer(server.Options(terminal));
  if (!description.ok()) return FailCall(terminal, description.status(), *client);
  terminal.out << (server.json ? ToJson(*description) + "\n" : DescriptionText(*description));
  return Finish(terminal, kDone);
}

}  // namespace heed::cli
