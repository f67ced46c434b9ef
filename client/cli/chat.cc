// heed chat: a conversation. Each line is a message; the answer is shown as it comes, and what was said
// before goes with the next message. Ctrl-C ends an answer, and what was shown of it stays part of the
// conversation.
#include <functional>
#include <utility>

#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/grpc_status.h"

namespace heed::cli {
namespace {

constexpr std::string_view kClear = "/clear";

struct ChatFlags {
  explicit ChatFlags(Arguments& arguments) {
    arguments.Flag("system", &system,
                   "what the model is told before all messages; unset: as its template says");
    arguments.Flag("version", &version, "of the model; not needed where it has only one");
    arguments.Flag("temperature", &temperature,
                   "0: always the likeliest token; 1: as the model computes; unset: as `heed describe` says",
                   {0, 100});
    arguments.Flag("top_k", &top_k, "draw from the k likeliest tokens", {1, 1 << 30});
    arguments.Flag("top_p", &top_p, "draw from the likeliest tokens that make up this probability, 0 to 1",
                   {0, 1});
    arguments.Flag("seed", &seed, "the same seed gives the same answers");
    arguments.Flag("max_tokens", &max_tokens, "the longest answer; unset: the server's default",
                   {1, 1 << 30});
  }

  v1::GenerateRequest Request(const std::string& model) const {
    v1::GenerateRequest request;
    request.mutable_target()->set_model(model);
    request.mutable_target()->set_version(version);
    v1::SamplingOptions* sampling = request.mutable_sampling();  // never beams: answers stream
    if (temperature) sampling->set_temperature(*temperature);
    if (top_k) sampling->set_top_k(*top_k);
    if (top_p) sampling->set_top_p(*top_p);
    if (seed) sampling->set_seed(*seed);
    if (max_tokens) request.mutable_stopping()->set_max_tokens(*max_tokens);
    request.add_inputs();
    return request;
  }

  std::string system, version;
  std::optional<double> temperature, top_p;
  std::optional<int32_t> top_k, max_tokens;
  std::optional<uint64_t> seed;
};

class Dialogue {
 public:
  Dialogue(v1::GenerateRequest request, std::string system, const ServerFlags& server, const Client& client,
           Terminal& terminal)
      : request_(std::move(request)),
        system_(std::move(system)),
        server_(server),
        client_(client),
        terminal_(terminal) {
    Clear();
  }

  void Clear() {
    chat()->clear_messages();
    if (!system_.empty()) Add("system", system_);
  }

  // The exit status of this turn alone. A message without an answer is taken back.
  int Say(const std::string& message) {
    Add("user", message);
    answer_.clear();
    cut_.clear();
    absl::Status error;
    const absl::Status status = client_.Generate(
        request_, [&](const v1::GenerateEvent& event) { Show(event, error); }, server_.Options(terminal_));
    if (!server_.json && !answer_.empty() && !answer_.ends_with('\n')) terminal_.out << "\n" << std::flush;
    terminal_.err << cut_ << std::flush;
    const bool interrupted = terminal_.interrupted.stop_requested();
    if (answer_.empty()) {
      chat()->mutable_messages()->RemoveLast();
    } else {
      Add("assistant", answer_);
    }
    if (interrupted) return kDone;
    if (!status.ok()) return FailCall(terminal_, status, client_, request_.target().model());
    return error.ok() ? kDone : FailCall(terminal_, error, client_, request_.target().model());
  }

 private:
  v1::Chat* chat() { return request_.mutable_inputs(0)->mutable_chat(); }

  void Add(std::string_view role, const std::string& content) {
    v1::Chat::Message* message = chat()->add_messages();
    message->set_role(std::string(role));
    message->set_content(content);
  }

  void Show(const v1::GenerateEvent& event, absl::Status& error) {
    if (event.has_error()) error = FromError(event.error());
    if (event.has_piece()) answer_ += event.piece().text();
    if (server_.json) {
      terminal_.out << ToJson(event) << "\n" << std::flush;
    } else if (event.finished().reason() == v1::FINISH_REASON_MAX_TOKENS) {
      cut_ = Cat("[MAX_TOKENS, ", event.finished().usage().output_tokens(), " tokens]\n");
    } else if (event.has_piece()) {
      const std::string& text = event.piece().text();
      terminal_.out << (terminal_.out_is_screen ? ForScreen(text) : text) << std::flush;
    }
  }

  v1::GenerateRequest request_;  // with all that was said
  const std::string system_;
  const ServerFlags& server_;
  const Client& client_;
  Terminal& terminal_;
  std::string answer_;
  std::string cut_;  // says that the answer was not at its end, if so
};

// Each answer has a token of its own, so that Ctrl-C ends that one.
void CatchInterrupt(Terminal& terminal) {
  if (terminal.catch_interrupt) terminal.interrupted = terminal.catch_interrupt();
}

int Converse(Dialogue& dialogue, Terminal& terminal) {
  Texts lines({}, {}, Unit::kLine, terminal);
  int exit_status = kDone;
  while (terminal.out) {
    if (terminal.in_is_screen) terminal.err << "> " << std::flush;
    const absl::StatusOr<std::vector<Text>> line = lines.Next(1);
    if (!line.ok()) return Fail(terminal, line.status());
    if (line->empty()) break;
    const std::string& message = (*line)[0].text;
    if (message.find_first_not_of(" \t") == message.npos) continue;
    if (message == kClear) {
      dialogue.Clear();
      continue;
    }
    CatchInterrupt(terminal);
    if (const int status = dialogue.Say(message); status != kDone) exit_status = status;
  }
  return Finish(terminal, exit_status);
}

}  // namespace

int Chat(Arguments& arguments, Terminal& terminal) {
  ChatFlags flags(arguments);
  ServerFlags server(arguments, absl::InfiniteDuration());
  if (std::optional<int> ended = arguments.Parse(terminal, /*max_texts=*/1)) return *ended;
  CatchInterrupt(terminal);  // before there are threads
  const absl::StatusOr<Client> client = server.Connect();
  if (!client.ok()) return Fail(terminal, client.status());
  if (terminal.in_is_screen)
    terminal.err << "a line is a message; " << kClear
                 << " forgets all of them; Ctrl-C ends an answer, Ctrl-D the conversation\n";
  Dialogue dialogue(flags.Request(arguments.texts().empty() ? "" : arguments.texts()[0]), flags.system,
                    server, *client, terminal);
  return Converse(dialogue, terminal);
}

}  // namespace heed::cli
