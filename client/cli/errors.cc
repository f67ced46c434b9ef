#include "client/cli/errors.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/arguments.h"
#include "client/grpc_status.h"
#include "engine/base/status.h"

namespace heed::cli {
namespace {

constexpr int64_t kLongestMessage = 2000;
constexpr absl::Duration kAskForModels = absl::Seconds(2);

// What the caller can do. {when}: "in 250ms", or "later" where nobody knows.
struct Remedy {
  std::string_view reason;  // or a code's name, of errors without a reason
  std::string_view sentence;
};
constexpr Remedy kRemedies[] = {
    {"INPUT_KIND_UNSUPPORTED", "`heed describe {model}` says what it reads"},
    {"INPUT_TOO_LONG", "--truncate cuts what is too long; `heed describe {model}` says how much it reads"},
    {"TEXT_TOO_LARGE", "`heed info` shows the server's limits"},
    {"TOO_MANY_INPUTS", "`heed info` shows the server's limits"},
    {"STATE_TOO_LARGE", "`heed describe {model}` says what a token costs and how much there is"},
    {"ANSWER_TOO_LARGE", "ask for fewer inputs at a time, or for less of each; `heed info` shows the limits"},
    {"RPC_UNSUPPORTED", "`heed describe {model}` says what it answers"},
    {"MODEL_NOT_FOUND", "`heed models` lists what the server has"},
    {"VERSION_NOT_FOUND",
     "`heed models` lists what the server has; without --version it takes the one that is served"},
    {"SERVICE_NOT_FOUND", "`heed models` lists what the server has"},
    {"MODEL_FAILED", "`heed models` shows why; the others answer"},
    {"NO_TOKEN_LEFT", "the text may end sooner with a smaller --min-tokens"},
    {"TOO_FEW_RESULTS", "ask for fewer --results, or look with more --beams"},
    {"MODEL_LOADING",
     "it is being loaded: try again {when}; `heed health --model={model}` says when it is ready"},
    {"SERVER_STOPPING", "it ends, or starts anew: try again {when}; `heed health` says when it is ready"},
    {"QUEUE_FULL", "the model has more to do than it can hold: try again {when}"},
    {"TOO_MANY_REQUESTS", "the server has more to do than it can hold: try again {when}"},
    {"TOO_MANY_WATCHES", "too many watch the server's health: try again {when}"},
    {"ANSWERS_FULL", "too much is being answered: try again {when}, or ask for less at a time"},
    {"OUT_OF_MEMORY", "the server's memory is full: try again {when}, or ask for less at a time"},
    {"DEADLINE_EXCEEDED", "--timeout gives it longer, up to what `heed info` shows"},
    {"CLIENT_STALLED", "the answers were not read: `heed info` shows how long the server waits"},
    {"MODEL_ERROR", "the server's log says what has failed"},
    {"OUTPUT_NOT_FINITE",
     "the model computes nonsense for this input; another --precision of the server may not"},
    {"TOKEN_REQUIRED", "--token_file=FILE with your token, which you have from who runs the server"},
    {"TOKEN_UNKNOWN", "--token_file=FILE may be another server's, or old: ask who runs this one"},
    {"METHOD_FORBIDDEN", "who runs the server says what a token is good for"},
    {"MODEL_FORBIDDEN", "`heed models` lists those that your token is good for"},
    {"TLS_WANTED", "--tls, or --tls_authority=FILE with the authority that has signed its certificate"},
    {"TLS_NOT_SPOKEN", "leave out --tls and its like, or ask who runs the server for another --address"},
    {"CERTIFICATE_EXPIRED", "who runs the server has to renew it; or this machine's clock is wrong"},
    {"CERTIFICATE_OF_ANOTHER", "--address by one of these names; or it is not the server that it should be"},
    {"CERTIFICATE_NOT_TRUSTED",
     "--tls_authority=FILE with the certificate of its authority, which you have from who runs the server"},
    {"CLIENT_CERTIFICATE_WANTED",
     "--tls_certificate=FILE and --tls_key=FILE, which you have from who runs the server"},
    {"CLIENT_CERTIFICATE_REFUSED",
     "it has to be signed by the server's --tls_client_authority, and be valid"},
    {"NOT_FOUND", "`heed models` lists what the server has"},
    {"UNIMPLEMENTED", "the address may be another service's, or an older server's"},
};

std::string Code(const absl::Status& status) { return absl::StatusCodeToString(status.code()); }

std::string When(const ErrorDetails& details) {
  return details.retry_delay ? Cat("in ", absl::FormatDuration(*details.retry_delay)) : "later";
}

// Whether it is about which model: there is none such, or the call names none and the server has several.
bool AsksForModel(const ErrorDetails& details, std::string_view model) {
  const bool unnamed = model.empty() && (details.field == "target.model" || details.field == "model");
  return details.reason == "MODEL_NOT_FOUND" || (unnamed && details.reason == "INVALID_VALUE");
}

// "did you mean 'polarity'? the server has polarity, g2p"; empty if the server does not say.
std::string OtherModels(const Client& client, std::string_view model) {
  const auto list = client.ListModels({.timeout = kAskForModels});
  if (!list.ok() || list->models().empty()) return "";
  std::vector<std::string> names;
  for (const v1::ModelSummary& entry : list->models()) names.push_back(entry.model());
  const std::string_view nearest = Nearest(model, {names.begin(), names.end()});
  const std::string question = nearest.empty() ? "" : Cat("did you mean '", nearest, "'? ");
  return OneLine(Cat(question, "the server has ", absl::StrJoin(names, ", ")), kLongestMessage);
}

}  // namespace

std::string ErrorText(const absl::Status& status) {
  const std::string reason = DetailsOf(status).reason;
  return OneLine(Cat(reason.empty() ? Code(status) : reason, ": ", status.message()), kLongestMessage);
}

std::string Advice(const absl::Status& status, std::string_view model) {
  const ErrorDetails details = DetailsOf(status);
  const std::string name = details.reason.empty() ? Code(status) : details.reason;
  const auto* remedy = std::ranges::find(kRemedies, name, &Remedy::reason);
  if (remedy != std::end(kRemedies)) {
    const std::string shown = model.empty() ? "MODEL" : OneLine(model);
    return absl::StrReplaceAll(Cat(remedy->sentence), {{"{model}", shown}, {"{when}", When(details)}});
  }
  return details.retry_delay ? Cat("try again ", When(details)) : "";
}

int FailCall(Terminal& terminal, const absl::Status& status, const Client& client, std::string_view model) {
  if (terminal.interrupted.stop_requested()) return kInterrupted;
  terminal.err << "heed: " << ErrorText(status) << "\n";
  const ErrorDetails details = DetailsOf(status);
  std::string advice;
  if (AsksForModel(details, model)) advice = OtherModels(client, model);
  if (advice.empty()) advice = Advice(status, model);
  if (!advice.empty()) terminal.err << advice << "\n";
  if (!details.request_id.empty()) terminal.err << "request " << OneLine(details.request_id, 128) << "\n";
  return kFailed;
}

void TellError(Terminal& terminal, std::string_view where, const v1::Error& error) {
  const absl::Status status = FromError(error);
  const ErrorDetails details = DetailsOf(status);
  const std::string again = details.retry_delay ? Cat(" (try again ", When(details), ")") : "";
  terminal.err << "heed: " << OneLine(where, kLongestMessage) << ": " << ErrorText(status) << again << "\n";
}

}  // namespace heed::cli
