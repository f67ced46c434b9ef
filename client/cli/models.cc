// heed models: what a server has, a line a model.
#include "absl/strings/str_format.h"
#include "client/cli/call.h"
#include "client/cli/command.h"

namespace heed {

int Models(Arguments& arguments, Terminal& terminal) {
  ServerFlags server(arguments);
  if (std::optional<int> ended = arguments.Parse(terminal, 0)) return *ended;

  const absl::StatusOr<Client> client = server.Connect();
  if (!client.ok()) return Fail(terminal, client.status());
  const absl::StatusOr<v1::ListModelsResponse> list = client->List(server.Options(terminal));
  if (!list.ok()) return FailCall(terminal, list.status());
  for (const v1::ListModelsResponse::Entry& entry : list->models()) {
    if (server.json) {
      terminal.out << ToJson(entry) << "\n";
      continue;
    }
    terminal.out << absl::StrFormat("%-20s %-10s %s", entry.model(), entry.version(),
                                    v1::ModelState_Name(entry.state()));
    if (!entry.error().empty()) terminal.out << "  " << OneLine(entry.error(), 1000);
    terminal.out << "\n";
  }
  return Finish(terminal, kDone);
}

}  // namespace heed
