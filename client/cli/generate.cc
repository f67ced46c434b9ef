// heed generate: text as the model makes it, each piece written the moment it comes. Of several texts
// (prompts, or samples of one) the first that goes on is shown as it comes, and the others wait for their
// turn. Beam search's texts come at its end, the best first.
#include <chrono>

#include "absl/strings/str_format.h"
#include "client/cli/call.h"
#include "client/cli/command.h"

namespace heed {
namespace {

// What a screen would obey and is no new line or tab, as spaces.
std::string ForScreen(std::string text) {
  for (char& c : text) {
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F) c = ' ';
  }
  return text;
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
  terminal_.out << (terminal_.out_is_screen ? ForScreen(std::string(text)) : text) << std::flush;
  in_line_ = text.back() != '\n';
}

// The text; with log-probabilities, a line a token.
std::string Page::Pieces(const v1::GeneratePiece& piece) const {
  if (piece.logprobs().empty()) return piece.text();
  std::string lines;
  for (const v1::TokenLogprob& token : piece.logprobs()) {
    absl::StrAppendFormat(&lines, "%.4f  %s\n", token.logprob(), Quoted(token.text()));
  }
  return lines;
}

std::string Page::Name(const v1::GenerateEvent& event) const {
  if (texts_.size() == 1) return "";
  return absl::StrFormat("input %d, sample %d: ", event.input() + 1, event.sample() + 1);
}

std::string Page::Last(const v1::GenerateEvent& event) const {
  if (event.has_error()) {
    const auto code = static_cast<absl::StatusCode>(event.error().code());
    return Cat("heed: ", Name(event), absl::StatusCodeToString(code), ": ",
               OneLine(event.error().message(), 1000), "\n");
  }
  const v1::GenerateFinished& finished = event.finished();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  const int tokens = finished.usage().output_tokens();
  const std::string score = finished.score() == 0 ? "" : absl::StrFormat(", score %.4f", finished.score());
  return absl::StrFormat("[%s%s, %d tokens%s, %.1f tokens/s]\n", Name(event),
                         v1::GenerateEvent::Reason_Name(finished.reason()), tokens, score,
                         tokens / std::max(seconds, 1e-6));
}

// What the flags say beside the prompts.
struct GenerateFlags {
  explicit GenerateFlags(Arguments& arguments);
  void Set(v1::GenerateRequest* request) const;

  std::optional<int32_t> max_tokens, top_k;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<uint64_t> seed;
  int32_t samples = 1;
  std::vector<std::string> stop;
  bool logprobs = false;
  int32_t beams = 0, results = 1;
  double length_penalty = 0;
};

GenerateFlags::GenerateFlags(Arguments& arguments) {
  arguments.Flag("max_tokens", &max_tokens, "the longest text; unset: the server's default", {1, 1 << 30});
  arguments.Flag("temperature", &temperature,
                 "0: always the likeliest token; 1: as the model says, the default", {0, 100});
  arguments.Flag("top_k", &top_k, "draw from the k likeliest tokens", {1, 1 << 30});
  arguments.Flag("top_p", &top_p, "draw from the likeliest tokens that make up this probability, 0 to 1",
                 {0, 1});
  arguments.Flag("min_p", &min_p, "draw from tokens at least this times as likely as the likeliest, 0 to 1",
                 {0, 1});
  arguments.Flag("repetition_penalty", &repetition_penalty,
                 "above 1: tokens that were used become less likely", {1e-3, 10});
  arguments.Flag("seed", &seed, "the same seed gives the same text");
  arguments.Flag("samples", &samples, "texts for each prompt, 1 to 16", {1, 16});
  arguments.Flag("stop", &stop, "a string that ends the text");
  arguments.Flag("logprobs", &logprobs, "a line a token, with its log-probability");
  arguments.Flag("beams", &beams,
                 "look for the likeliest text with so many hypotheses, up to 16; 0: draw one", {0, 16});
  arguments.Flag("length_penalty", &length_penalty,
                 "with --beams: a text's score is the sum of its log-probabilities / length^this", {-10, 10});
  arguments.Flag("results", &results, "with --beams: texts for each prompt, the best first", {1, 16});
}

void GenerateFlags::Set(v1::GenerateRequest* request) const {
  v1::SamplingOptions& sampling = *request->mutable_sampling();
  if (temperature) sampling.set_temperature(*temperature);
  if (top_k) sampling.set_top_k(*top_k);
  if (top_p) sampling.set_top_p(*top_p);
  if (min_p) sampling.set_min_p(*min_p);
  if (repetition_penalty) sampling.set_repetition_penalty(*repetition_penalty);
  if (seed) sampling.set_seed(*seed);
  v1::StoppingOptions& stopping = *request->mutable_stopping();
  if (max_tokens) stopping.set_max_tokens(*max_tokens);
  for (const std::string& text : stop) stopping.add_stop(text);
  request->mutable_details()->set_logprobs(logprobs);
  request->set_samples(samples);
  if (beams == 0) return;
  request->mutable_beam()->set_width(beams);
  request->mutable_beam()->set_length_penalty(length_penalty);
  request->mutable_beam()->set_results(results);
}

absl::Status AddPrompts(Texts& texts, Reading reading, v1::GenerateRequest* request) {
  ASSIGN_OR_RETURN(const std::vector<Text> prompts, texts.Next(kInputsARequest + 1));
  if (prompts.size() > kInputsARequest) return Invalid("more than ", kInputsARequest, " prompts");
  for (const Text& prompt : prompts) RETURN_IF_ERROR(ToInput(prompt, reading, request->add_inputs()));
  return absl::OkStatus();
}

int Stream(const Client& client, const v1::GenerateRequest& request, const ServerFlags& server,
           Terminal& terminal) {
  const int texts = request.has_beam() ? request.beam().results() : request.samples();
  Page page(request.inputs_size(), texts, terminal);
  bool failed = false;
  const absl::Status status = client.Generate(
      request,
      [&](const v1::GenerateEvent& event) {
        failed = failed || event.has_error();
        if (server.json) {
          terminal.out << ToJson(event) << "\n" << std::flush;
        } else {
          page.Add(event);
        }
      },
      server.Options(terminal));
  if (page.in_line()) terminal.out << "\n" << std::flush;
  if (!status.ok()) return FailCall(terminal, status);
  return Finish(terminal, failed ? kFailed : kDone);
}

}  // namespace

int Generate(Arguments& arguments, Terminal& terminal) {
  GenerateFlags flags(arguments);
  ServerFlags server(arguments, absl::InfiniteDuration());
  TextFlags text_flags(arguments);
  if (std::optional<int> ended = arguments.Parse(terminal)) return *ended;

  v1::GenerateRequest request;
  text_flags.Set(request.mutable_target(), request.mutable_text());
  flags.Set(&request);
  Texts texts(arguments.texts(), text_flags.files, Unit::kFile, terminal);
  if (absl::Status read = AddPrompts(texts, text_flags.reading, &request); !read.ok())
    return Fail(terminal, read);
  if (terminal.catch_interrupt) terminal.interrupted = terminal.catch_interrupt();
  const absl::StatusOr<Client> client = server.Connect();
  if (!client.ok()) return Fail(terminal, client.status());
  return Stream(*client, request, server, terminal);
}

}  // namespace heed
