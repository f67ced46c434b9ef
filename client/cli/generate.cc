// heed generate: text as the model makes it, each piece written the moment it comes. Of several texts
// (prompts, or samples of one) the first that goes on is shown as it comes, and the others wait for their
// turn. Beam search's texts come at its end, the best first. Of a model that draws images the tokens are
// their pixels, and become files.
#include <chrono>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/drawings.h"
#include "client/grpc_status.h"

namespace heed::cli {
namespace {

// Why a text has ended: "MAX_TOKENS", "STOP_STRING \"\n\n\"".
std::string Ending(const v1::GenerateFinished& finished) {
  constexpr std::string_view kPrefix = "FINISH_REASON_";
  std::string reason = v1::FinishReason_Name(finished.reason());
  if (reason.starts_with(kPrefix)) reason.erase(0, kPrefix.size());
  return finished.has_stop_string() ? Cat(reason, " ", Quoted(finished.stop_string())) : reason;
}

// Writes the texts of one call.
class Page {
 public:
  Page(int prompts, int samples, Terminal& terminal)
      : samples_(samples), terminal_(terminal), texts_(prompts * samples) {}

  void Add(const v1::GenerateEvent& event);
  bool in_line() const { return in_line_; }  // a text has begun and its line has not ended

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    std::string text;     // not written yet
    std::string message;  // its last word, when it has ended
    bool ended = false;
  };
  void Write(std::string_view text);
  void WriteTurn();
  std::string Pieces(const v1::GeneratePiece& piece) const;
  std::string Name(const v1::GenerateEvent& event) const;
  std::string Last(const v1::GenerateEvent& event) const;

  const int samples_;
  Terminal& terminal_;
  std::vector<Waiting> texts_;
  size_t turn_ = 0;  // the one that is written
  const Clock::time_point begin_ = Clock::now();
  bool in_line_ = false;
};

void Page::Add(const v1::GenerateEvent& event) {
  const size_t at = static_cast<size_t>(event.input()) * samples_ + event.sample();
  if (event.input() < 0 || event.sample() < 0 || event.sample() >= samples_ || at >= texts_.size()) return;
  Waiting& waiting = texts_[at];
  if (event.has_piece()) waiting.text += Pieces(event.piece());
  if (event.has_finished() || event.has_error()) {
    waiting.ended = true;
    waiting.message = Last(event);
  }
  WriteTurn();
}

void Page::WriteTurn() {
  for (; turn_ < texts_.size(); ++turn_) {
    Waiting& waiting = texts_[turn_];
    Write(waiting.text);
    waiting.text.clear();
    if (!waiting.ended) return;
    if (in_line_) Write("\n");
    in_line_ = false;
    terminal_.err << waiting.message << std::flush;
  }
}

void Page::Write(std::string_view text) {
  if (text.empty()) return;
  if (terminal_.out_is_screen) {
    terminal_.out << ForScreen(text) << std::flush;
  } else {
    terminal_.out << text << std::flush;
  }
  in_line_ = text.back() != '\n';
}

// The text; with log-probabilities, a line a token.
std::string Page::Pieces(const v1::GeneratePiece& piece) const {
  if (piece.logprobs().empty()) return piece.text();
  std::string lines;
  for (const v1::TokenLogprob& token : piece.logprobs()) lines += LogprobLine(token);
  return lines;
}

std::string Page::Name(const v1::GenerateEvent& event) const {
  if (texts_.size() == 1) return "";
  return absl::StrFormat("input %d, sample %d: ", event.input() + 1, event.sample() + 1);
}

std::string Page::Last(const v1::GenerateEvent& event) const {
  if (event.has_error()) return Cat("heed: ", Name(event), ErrorText(FromError(event.error())), "\n");
  const v1::GenerateFinished& finished = event.finished();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  const int tokens = finished.usage().output_tokens();
  const std::string score = finished.has_score() ? absl::StrFormat(", score %.4f", finished.score()) : "";
  return absl::StrFormat("[%s%s, %d tokens%s, %.1f tokens/s]\n", Name(event), Ending(finished), tokens, score,
                         tokens / std::max(seconds, 1e-6));
}

// "17:-2.5": what is added to a token's logit.
struct LogitBias {
  int32_t id = 0;
  float value = 0;
};

bool AbslParseFlag(absl::string_view text, LogitBias* bias, std::string* error) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  if (absl::SimpleAtoi(parts.first, &bias->id) && absl::SimpleAtof(parts.second, &bias->value) &&
      bias->id >= 0 && bias->value >= -100 && bias->value <= 100) {
    return true;
  }
  *error = "ID:VALUE, a token's id and a number of -100 to 100";
  return false;
}

// What the flags say beside the prompts.
struct GenerateFlags {
  explicit GenerateFlags(Arguments& arguments);
  // Two flags that exclude each other: says so, and gives the exit status.
  std::optional<int> Wrong(const Arguments& arguments, Terminal& terminal) const;
  void Set(v1::GenerateRequest* request) const;

  std::vector<LogitBias> logit_bias;
  std::optional<double> repetition_penalty, presence_penalty, frequency_penalty, temperature, typical_p,
      top_p, min_p;
  std::optional<int32_t> top_k, samples;
  std::optional<uint64_t> seed;

  std::optional<int32_t> beams, results;
  std::optional<double> length_penalty;
  bool early_stopping = false;

  std::optional<int32_t> first_token;

  std::optional<int32_t> max_tokens;
  int32_t min_tokens = 0;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_tokens;
  bool include_stop = false, ignore_eos = false;

  bool tokens = false, logprobs = false;
  int32_t top_logprobs = 0;
  std::string png;

 private:
  void DeclareSampling(Arguments& arguments);
  void DeclareBeam(Arguments& arguments);
  void DeclareStopping(Arguments& arguments);
  std::vector<std::string_view> NotWithBeams() const;
  void SetSampling(v1::SamplingOptions* sampling) const;
  void SetStopping(v1::StoppingOptions* stopping) const;
};

GenerateFlags::GenerateFlags(Arguments& arguments) {
  DeclareSampling(arguments);
  DeclareBeam(arguments);
  DeclareStopping(arguments);
  arguments.Flag("tokens", &tokens, "with --json: the ids of the tokens");
  arguments.Flag("logprobs", &logprobs, "a line a token, with its log-probability");
  arguments.Flag("top_logprobs", &top_logprobs, "and those of the n likeliest in its place, 0 to 20",
                 {0, 20});
  arguments
      .Flag("png", &png,
            "of a model that draws images: write them to this file, several to FILE-1.png and so on; prompts "
            "are pixels, --as=tokens, and without one the image is drawn from its first")
      .is_path = true;
}

void GenerateFlags::DeclareSampling(Arguments& arguments) {
  arguments.Flag("temperature", &temperature,
                 "0: always the likeliest token; 1: as the model computes; unset: as `heed describe` says",
                 {0, 100});
  arguments.Flag("top_k", &top_k, "draw from the k likeliest tokens", {1, 1 << 30});
  arguments.Flag("top_p", &top_p, "draw from the likeliest tokens that make up this probability, 0 to 1",
                 {0, 1});
  arguments.Flag("min_p", &min_p, "draw from tokens at least this times as likely as the likeliest, 0 to 1",
                 {0, 1});
  arguments.Flag(
      "typical_p", &typical_p,
      "draw from the tokens of most usual surprise that make up this probability, above 0, up to 1",
      {0, 1, true});
  arguments.Flag("repetition_penalty", &repetition_penalty,
                 "above 1: tokens that were used become less likely", {0, 10, true});
  arguments.Flag("presence_penalty", &presence_penalty,
                 "taken from the logit of each token that was used, -2 to 2", {-2, 2});
  arguments.Flag("frequency_penalty", &frequency_penalty,
                 "taken from a token's logit for each time that it was used, -2 to 2", {-2, 2});
  arguments.Flag("logit_bias", &logit_bias, "ID:VALUE, added to the logit of this token, -100 to 100");
  arguments.Flag("seed", &seed, "the same seed gives the same text");
  arguments.Flag("samples", &samples, "texts for each prompt, 1 to 16; unset: 1", {1, 16});
}

void GenerateFlags::DeclareBeam(Arguments& arguments) {
  arguments.Flag("beams", &beams,
                 "look for the likeliest text with so many hypotheses, 1 to 16; unset: draw one", {1, 16});
  arguments.Flag("length_penalty", &length_penalty,
                 "with --beams: a text's score is the sum of its log-probabilities / length^this", {-10, 10});
  arguments.Flag("results", &results, "with --beams: texts for each prompt, the best first", {1, 16});
  arguments.Flag("early_stopping", &early_stopping, "with --beams: end when so many texts have ended");
}

void GenerateFlags::DeclareStopping(Arguments& arguments) {
  arguments.Flag(
      "first_token", &first_token,
      "of an encoder-decoder: the id of the token that the text begins with, a language's say; unset: "
      "as `heed describe` says",
      {0, 2147483647});
  arguments.Flag("max_tokens", &max_tokens, "the longest text; unset: the server's default", {1, 1 << 30});
  arguments.Flag("min_tokens", &min_tokens, "before which no end token is drawn", {0, 1 << 30});
  arguments.Flag("stop", &stop, "a string that ends the text");
  arguments.Flag("stop_token", &stop_tokens, "the id of a token that ends the text, beside the model's own",
                 {0, 2147483647});
  arguments.Flag("include_stop", &include_stop, "what stopped the text is part of it");
  arguments.Flag("ignore_eos", &ignore_eos, "the model's end tokens do not end the text");
}

// The flags that were given and that no beam search knows.
std::vector<std::string_view> GenerateFlags::NotWithBeams() const {
  const std::pair<std::string_view, bool> flags[] = {
      {"temperature", temperature.has_value()},
      {"top_k", top_k.has_value()},
      {"top_p", top_p.has_value()},
      {"min_p", min_p.has_value()},
      {"typical_p", typical_p.has_value()},
      {"repetition_penalty", repetition_penalty.has_value()},
      {"presence_penalty", presence_penalty.has_value()},
      {"frequency_penalty", frequency_penalty.has_value()},
      {"logit_bias", !logit_bias.empty()},
      {"seed", seed.has_value()},
      {"samples", samples.has_value()},
      {"min_tokens", min_tokens > 0},
      {"stop", !stop.empty()},
      {"top_logprobs", top_logprobs > 0},
  };
  std::vector<std::string_view> names;
  for (const auto& [name, given] : flags) {
    if (given) names.push_back(name);
  }
  return names;
}

std::optional<int> GenerateFlags::Wrong(const Arguments& arguments, Terminal& terminal) const {
  if (beams && !NotWithBeams().empty()) {
    return arguments.Excludes(terminal, NotWithBeams()[0], "beams",
                              "a beam search draws nothing, and is stopped by tokens only");
  }
  if (!beams && (results || length_penalty || early_stopping)) {
    const std::string_view flag = results ? "results" : length_penalty ? "length_penalty" : "early_stopping";
    return arguments.Wrong(terminal, Cat("--", flag, " needs --beams"));
  }
  if (beams && results.value_or(1) > *beams)
    return arguments.Wrong(terminal, Cat("--results=", *results, ": --beams=", *beams, " finds fewer"));
  if (max_tokens && min_tokens > *max_tokens)
    return arguments.Wrong(terminal,
                           Cat("--min_tokens=", min_tokens, " is above --max_tokens=", *max_tokens));
  return std::nullopt;
}

void GenerateFlags::SetSampling(v1::SamplingOptions* sampling) const {
  for (const LogitBias& bias : logit_bias) (*sampling->mutable_logit_bias())[bias.id] = bias.value;
  if (repetition_penalty) sampling->set_repetition_penalty(*repetition_penalty);
  if (presence_penalty) sampling->set_presence_penalty(*presence_penalty);
  if (frequency_penalty) sampling->set_frequency_penalty(*frequency_penalty);
  if (temperature) sampling->set_temperature(*temperature);
  if (top_k) sampling->set_top_k(*top_k);
  if (typical_p) sampling->set_typical_p(*typical_p);
  if (top_p) sampling->set_top_p(*top_p);
  if (min_p) sampling->set_min_p(*min_p);
  if (seed) sampling->set_seed(*seed);
  if (samples) sampling->set_samples(*samples);
}

void GenerateFlags::SetStopping(v1::StoppingOptions* stopping) const {
  if (max_tokens) stopping->set_max_tokens(*max_tokens);
  stopping->set_min_tokens(min_tokens);
  for (const std::string& text : stop) stopping->add_stop(text);
  for (const int32_t id : stop_tokens) stopping->add_stop_tokens(id);
  stopping->set_include_stop(include_stop);
  stopping->set_ignore_eos(ignore_eos);
}

void GenerateFlags::Set(v1::GenerateRequest* request) const {
  if (beams) {
    request->mutable_beam()->set_width(*beams);
    request->mutable_beam()->set_length_penalty(length_penalty.value_or(0));
    if (results) request->mutable_beam()->set_results(*results);
    request->mutable_beam()->set_early_stopping(early_stopping);
  } else {
    v1::SamplingOptions sampling;
    SetSampling(&sampling);
    // Where nothing is said, the model may search with beams by itself.
    if (sampling.ByteSizeLong() > 0) *request->mutable_sampling() = std::move(sampling);
  }
  if (first_token) request->set_first_token(*first_token);
  SetStopping(request->mutable_stopping());
  request->mutable_details()->set_tokens(tokens);
  request->mutable_details()->set_logprobs(logprobs || top_logprobs > 0);
  request->mutable_details()->set_top_logprobs(top_logprobs);
}

// Texts for each prompt.
int TextsOf(const v1::GenerateRequest& request) {
  if (request.has_beam()) return request.beam().has_results() ? request.beam().results() : 1;
  return request.sampling().has_samples() ? request.sampling().samples() : 1;
}

absl::Status AddPrompts(Texts& texts, const TextFlags& flags, v1::GenerateRequest* request) {
  ASSIGN_OR_RETURN(const std::vector<Text> prompts, texts.Next(kInputsARequest + 1));
  if (prompts.size() > kInputsARequest) return Invalid("more than ", kInputsARequest, " prompts");
  for (const Text& prompt : prompts) RETURN_IF_ERROR(flags.ToInput(prompt, request->add_inputs()));
  return absl::OkStatus();
}

// The images that a model will draw.
absl::StatusOr<Drawings> DrawingsOf(const Client& client, const v1::GenerateRequest& request,
                                    const CallOptions& options) {
  v1::DescribeModelRequest asked;
  asked.set_model(request.target().model());
  asked.set_version(request.target().version());
  ASSIGN_OR_RETURN(const v1::ModelDescription model, client.DescribeModel(asked, options));
  if (!model.has_generated_image()) return Invalid("--png: '", model.model(), "' draws no images");
  return Drawings::Of(model.generated_image(), request, TextsOf(request));
}

absl::Status WriteImages(const Drawings& drawings, const std::string& file, Terminal& terminal) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, drawings.Write(file));
  for (const std::string& name : names) terminal.err << "[" << name << "]\n" << std::flush;
  return absl::OkStatus();
}

int Stream(const Client& client, const v1::GenerateRequest& request, const ServerFlags& server,
           const std::string& png, Terminal& terminal) {
  std::optional<Drawings> drawings;
  if (!png.empty()) {
    absl::StatusOr<Drawings> begun = DrawingsOf(client, request, server.Options(terminal));
    if (!begun.ok()) return FailCall(terminal, begun.status(), client, request.target().model());
    drawings = *std::move(begun);
  }
  Page page(request.inputs_size(), TextsOf(request), terminal);
  bool failed = false;
  const absl::Status status = client.Generate(
      request,
      [&](const v1::GenerateEvent& event) {
        failed = failed || event.has_error();
        if (drawings) drawings->Add(event);
        if (server.json) {
          terminal.out << ToJson(event) << "\n" << std::flush;
        } else {
          page.Add(event);
        }
      },
      server.Options(terminal));
  if (page.in_line()) terminal.out << "\n" << std::flush;
  const absl::Status written = drawings ? WriteImages(*drawings, png, terminal) : absl::OkStatus();
  if (!status.ok()) return FailCall(terminal, status, client, request.target().model());
  if (!written.ok()) return Fail(terminal, written);
  return Finish(terminal, failed ? kFailed : kDone);
}

}  // namespace

int Generate(Arguments& arguments, Terminal& terminal) {
  GenerateFlags flags(arguments);
  ServerFlags server(arguments, absl::InfiniteDuration());
  TextFlags text_flags(arguments);
  if (std::optional<int> ended = arguments.Parse(terminal)) return *ended;
  if (std::optional<int> wrong = flags.Wrong(arguments, terminal)) return *wrong;

  v1::GenerateRequest request;
  text_flags.Set(request.mutable_target(), request.mutable_text());
  flags.Set(&request);
  if (!flags.png.empty() && arguments.texts().empty() && text_flags.files.empty()) {
    request.add_inputs()->mutable_tokens();
  } else {
    Texts texts(arguments.texts(), text_flags.files, Unit::kFile, terminal);
    if (absl::Status read = AddPrompts(texts, text_flags, &request); !read.ok()) return Fail(terminal, read);
  }
  if (terminal.catch_interrupt) terminal.interrupted = terminal.catch_interrupt();
  const absl::StatusOr<Client> client = server.Connect();
  if (!client.ok()) return Fail(terminal, client.status());
  return Stream(*client, request, server, flags.png, terminal);
}

}  // namespace heed::cli
