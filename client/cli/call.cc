#include "client/cli/call.h"

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace heed::cli {
namespace {

std::string FromEnvironment(const char* name, std::string_view otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : std::string(otherwise);
}

// The flag's own message says what is expected.
class Silent : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, int, const std::string&) override {}
};

bool ParseFields(absl::string_view text, google::protobuf::Message* message) {
  Silent silent;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  return parser.ParseFromString(std::string(text.data(), text.size()), message);
}

}  // namespace

ServerFlags::ServerFlags(Arguments& arguments, absl::Duration default_timeout)
    : address(FromEnvironment("HEED_ADDRESS", kDefaultAddress)), timeout(default_timeout) {
  tls_files.authority = FromEnvironment("HEED_TLS_AUTHORITY", "");
  token_file = FromEnvironment("HEED_TOKEN_FILE", "");
  arguments.Flag("address", &address,
                 "the server, HOST:PORT or unix:PATH; or HEED_ADDRESS in the environment");
  arguments.Flag("tls", &tls,
                 "call the server over TLS, and believe the authorities that this system trusts");
  arguments
      .Flag("tls_authority", &tls_files.authority,
            "call the server over TLS, and believe the authorities of this PEM file instead; or "
            "HEED_TLS_AUTHORITY in the environment")
      .is_path = true;
  arguments
      .Flag("tls_certificate", &tls_files.certificate,
            "PEM file with a certificate of yours, for a server that asks for one")
      .is_path = true;
  arguments.Flag("tls_key", &tls_files.key, "PEM file with its key").is_path = true;
  arguments
      .Flag("token_file", &token_file,
            "a file with your token, for a server that wants one; or HEED_TOKEN_FILE in the environment")
      .is_path = true;
  arguments.Flag("timeout", &timeout, "how long a call may take", {.min = 0.001});
  arguments.Flag("request_id", &request_id,
                 "under which the server's log has the call; unset: the server makes one");
  arguments.Flag("json", &json, "answers as protobuf's JSON, one a line");
}

absl::StatusOr<Client> ServerFlags::Connect() const {
  ClientOptions options;
  const bool any = !tls_files.authority.empty() || !tls_files.certificate.empty() || !tls_files.key.empty();
  if (tls || any) options.tls = tls_files;
  options.token_file = token_file;
  return Client::Connect(address, options);
}

TextFlags::TextFlags(Arguments& arguments) {
  arguments.Flag("model", &model, "its name; not needed where the server has only one");
  arguments.Flag("version", &version, "of the model; not needed where it has only one");
  arguments.Flag("priority", &priority, "higher is served first, -10 to 10", {-10, 10});
  arguments.Flag("file", &files, "read this file; - and no text at all is standard input").is_path = true;
  arguments.Flag("truncate", &truncate, "cut what is longer than the model reads, instead of refusing it");
  arguments.Flag("special_tokens", &special_tokens,
                 "add the tokenizer's special tokens; --nospecial_tokens: do not");
  arguments.Flag("global_tokens", &global_tokens,
                 "of each text the tokens that see all and are seen by all, counted from 0: 0,5,17; nothing "
                 "after the = for none; unset: as the model says");
  arguments.Flag(
      "global_input", &global_input,
      "of each text the second input of a model that has two: 'ids: [5, 9]' and, of each token of "
      "the text, which of these it belongs to, counted from 0, -1 for none: 'membership: [0, 0, 1, "
      "-1]'; what is left out is as the model says");
  arguments.Choice(
      "as", &form,
      "what a text is: text, tokens (ids: 17 4 9), pair (two texts, a tab between) or chat (a message, which "
      "the model's chat template makes a conversation)",
      {{"text", InputForm::kText},
       {"tokens", InputForm::kTokens},
       {"pair", InputForm::kPair},
       {"chat", InputForm::kChat}});
}

void TextFlags::Set(v1::Target* target, v1::TextOptions* text) const {
  target->set_model(model);
  target->set_version(version);
  target->set_priority(priority);
  text->set_truncate(truncate);
  text->set_without_special_tokens(!special_tokens);
}

absl::Status TextFlags::ToInput(const Text& text, v1::Input* input) const {
  if (global_tokens) {
    input->mutable_global_tokens()->mutable_positions()->Assign(global_tokens->positions.begin(),
                                                                global_tokens->positions.end());
  }
  if (global_input) *input->mutable_global_input() = global_input->input;
  return cli::ToInput(text, form, input);
}

bool AbslParseFlag(absl::string_view text, TokenPositions* tokens, std::string* error) {
  tokens->positions.clear();
  for (const absl::string_view word : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    int32_t& position = tokens->positions.emplace_back();
    if (absl::SimpleAtoi(word, &position) && position >= 0) continue;
    *error = "places of tokens, whole numbers of at least 0 with commas between";
    return false;
  }
  return true;
}

std::string AbslUnparseFlag(const TokenPositions& tokens) { return absl::StrJoin(tokens.positions, ","); }

bool AbslParseFlag(absl::string_view text, GlobalInputText* global, std::string* error) {
  *error = "fields of GlobalInput as protobuf's text, such as ids: [5, 9] membership: [0, 0, 1, -1]";
  return ParseFields(text, &global->input);
}

std::string AbslUnparseFlag(const GlobalInputText& global) { return global.input.ShortDebugString(); }

bool AbslParseFlag(absl::string_view text, AttentionChoice* choice, std::string* error) {
  *error = "fields of AttentionOptions as protobuf's text, such as layers: [0, 1] rows: 0";
  return ParseFields(text, &choice->options);
}

std::string AbslUnparseFlag(const AttentionChoice& choice) { return choice.options.ShortDebugString(); }

DetailsFlags::DetailsFlags(Arguments& arguments) {
  arguments.Flag(
      "attention", &attention,
      "with --json: the weights of attention too, of these layers, heads and rows, counted from 0: "
      "'layers: [0, 1] heads: 3 rows: 0', of each that is not named all; nothing after the = for "
      "all; 'cross: true': those for an encoder-decoder's source");
}

std::optional<int> DetailsFlags::Wrong(const Arguments& arguments, const ServerFlags& server,
                                       Terminal& terminal) const {
  if (!attention || server.json) return std::nullopt;
  return arguments.Wrong(terminal, "--attention needs --json: weights are shown as JSON only");
}

std::string LogprobLine(const v1::TokenLogprob& token) {
  std::string line = absl::StrFormat("%.4f  %s", token.logprob(), Quoted(token.bytes()));
  for (const v1::TopLogprob& other : token.top())
    absl::StrAppendFormat(&line, "  %.4f %s", other.logprob(), Quoted(other.bytes()));
  return line + "\n";
}

}  // namespace heed::cli
