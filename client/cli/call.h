// What the commands that call a server have in common: their flags, and the loop from texts to answers.
#ifndef HEED_CLIENT_CLI_CALL_H_
#define HEED_CLIENT_CLI_CALL_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/arguments.h"
#include "client/cli/errors.h"
#include "client/cli/terminal.h"
#include "client/cli/texts.h"
#include "client/client.h"

namespace heed::cli {

// Which server, what it is shown, and how long to wait for it. Flags --address (default: the environment's
// HEED_ADDRESS), --tls, --tls_authority (default: HEED_TLS_AUTHORITY), --tls_certificate, --tls_key,
// --token_file (default: HEED_TOKEN_FILE), --timeout, --request_id, --json.
struct ServerFlags {
  // `timeout`: the default; infinite for none.
  explicit ServerFlags(Arguments& arguments, absl::Duration timeout = absl::Seconds(60));
  absl::StatusOr<Client> Connect() const;
  CallOptions Options(const Terminal& terminal) const { return {timeout, terminal.interrupted, request_id}; }

  std::string address;
  bool tls = false;
  TlsFiles tls_files;  // any of them: TLS, too
  std::string token_file;
  absl::Duration timeout;
  std::string request_id;
  bool json = false;
};

// Positions of tokens: "0,5,17"; "" for none.
struct TokenPositions {
  std::vector<int32_t> positions;
};
bool AbslParseFlag(absl::string_view text, TokenPositions* tokens, std::string* error);
std::string AbslUnparseFlag(const TokenPositions& tokens);

// A second input, as protobuf's text: "ids: [5, 9] membership: [0, 0, 1, -1]"; "" for the model's own.
struct GlobalInputText {
  v1::GlobalInput input;
};
bool AbslParseFlag(absl::string_view text, GlobalInputText* global, std::string* error);
std::string AbslUnparseFlag(const GlobalInputText& global);

// Which model, and which texts. Flags --model, --version, --priority, --truncate, --special_tokens, --file,
// --as, --global_tokens, --global_input.
struct TextFlags {
  explicit TextFlags(Arguments& arguments);
  void Set(v1::Target* target, v1::TextOptions* text) const;
  // Makes a text an input that an encoder may read.
  absl::Status ToInput(const Text& text, v1::Input* input) const;

  std::string model, version;
  int32_t priority = 0;
  bool truncate = false;
  bool special_tokens = true;
  InputForm form = InputForm::kText;
  std::optional<TokenPositions> global_tokens;
  std::optional<GlobalInputText> global_input;
  std::vector<std::string> files;
};

// Which weights of attention, as protobuf's text: "layers: [0, 1] rows: 0"; "" for all.
struct AttentionChoice {
  v1::AttentionOptions options;
};
bool AbslParseFlag(absl::string_view text, AttentionChoice* choice, std::string* error);
std::string AbslUnparseFlag(const AttentionChoice& choice);

// What answers tell beside what they are for: flag --attention.
struct DetailsFlags {
  explicit DetailsFlags(Arguments& arguments);
  // After Parse(): the exit status if what they ask for could not be shown.
  std::optional<int> Wrong(const Arguments& arguments, const ServerFlags& server, Terminal& terminal) const;
  template <typename Request>
  void Set(Request* request) const {
    if (attention) *request->mutable_details()->mutable_attention() = attention->options;
  }

  std::optional<AttentionChoice> attention;
};

// A token's line: "-0.2500  "be"", and after it, likeliest first, those that could stand in its place.
std::string LogprobLine(const v1::TokenLogprob& token);

// A method that answers many inputs, and how the command fills in and shows one. An Item is what becomes an
// input: it has a `where`, as a Text does.
template <typename Request, typename Response, typename Item = Text>
struct InputCall {
  Request request;  // all but the inputs
  absl::StatusOr<Response> (Client::*method)(const Request&, const CallOptions&) const;
  std::function<absl::Status(const Item& item, Request& request)> add;
  std::function<void(const Item& item, const typename Response::Result& result)>
      print;  // of a result with a value
  std::string_view unit = "text";
};
template <typename Request, typename Response>
using TextCall = InputCall<Request, Response>;

inline constexpr size_t kInputsARequest = 64;

// Sends what the source has, some in each request, and shows each answer, or its error, in their order.
// Returns the exit status. The source's Next(most) gives the next items, as that of Texts does.
template <typename Source, typename Request, typename Response, typename Item>
int AnswerAll(const ServerFlags& server, const Client& client, Source& source,
              const InputCall<Request, Response, Item>& call, Terminal& terminal) {
  Progress progress(terminal, "inputs");
  int exit_status = kDone;
  for (bool any = false;; any = true) {
    const absl::StatusOr<std::vector<Item>> batch = source.Next(kInputsARequest);
    if (!batch.ok()) return Fail(terminal, batch.status());
    if (batch->empty() && !any)
      terminal.err << "heed: no " << call.unit << " to answer: the input is empty\n";
    if (batch->empty()) return Finish(terminal, exit_status);
    const absl::StatusOr<Response> response = AnswerBatch(server, client, *batch, call, terminal);
    if (!response.ok()) return FailCall(terminal, response.status(), client, call.request.target().model());
    if (!Show(*batch, *response, call, server.json, terminal)) exit_status = kFailed;
    if (!terminal.out.flush()) return Finish(terminal, exit_status);
    progress.Add(static_cast<int64_t>(batch->size()));
  }
}

template <typename Request, typename Response>
int AnswerTexts(const ServerFlags& server, Texts& texts, const TextCall<Request, Response>& call,
                Terminal& terminal) {
  const absl::StatusOr<Client> client = server.Connect();
  if (!client.ok()) return Fail(terminal, client.status());
  return AnswerAll(server, *client, texts, call, terminal);
}

template <typename Request, typename Response, typename Item>
absl::StatusOr<Response> AnswerBatch(const ServerFlags& server, const Client& client,
                                     const std::vector<Item>& batch,
                                     const InputCall<Request, Response, Item>& call,
                                     const Terminal& terminal) {
  Request request = call.request;
  for (const Item& item : batch) RETURN_IF_ERROR(call.add(item, request));
  ASSIGN_OR_RETURN(Response response, (client.*call.method)(request, server.Options(terminal)));
  if (response.results_size() != static_cast<int>(batch.size())) {
    return absl::InternalError(
        Cat("the server gave ", response.results_size(), " results for ", batch.size(), " inputs"));
  }
  return response;
}

// False if an input has an error.
template <typename Request, typename Response, typename Item>
bool Show(const std::vector<Item>& batch, const Response& response,
          const InputCall<Request, Response, Item>& call, bool json, Terminal& terminal) {
  bool all = true;
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto& result = response.results(static_cast<int>(i));
    if (json) terminal.out << ToJson(result) << "\n";
    if (result.has_error()) TellError(terminal, batch[i].where, result.error());
    if (!json && result.has_value()) call.print(batch[i], result);
    all = all && result.has_value();
  }
  return all;
}

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_CALL_H_
