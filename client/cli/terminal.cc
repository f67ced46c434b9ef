#include "client/cli/terminal.h"

#include <algorithm>

#include "absl/log/check.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "engine/base/status.h"
#include "engine/text/tokenizer.h"
#include "google/protobuf/util/json_util.h"

namespace heed {
namespace {

std::string_view Advice(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kNotFound:
      return "`heed models` lists what the server has";
    case absl::StatusCode::kFailedPrecondition:
      return "`heed describe MODEL` says what a model can do";
    case absl::StatusCode::kResourceExhausted:
      return "the server has more to do than it can hold: try again later";
    case absl::StatusCode::kDeadlineExceeded:
      return "--timeout gives it longer";
    case absl::StatusCode::kUnimplemented:
      return "the address may be another service's, or an older server's";
    default:
      return "";
  }
}

}  // namespace

int Fail(Terminal& terminal, const absl::Status& status) {
  terminal.err << "heed: " << status.message() << "\n";
  return kFailed;
}

int FailUsage(Terminal& terminal, std::string_view command, const absl::Status& status) {
  terminal.err << "heed " << command << ": " << status.message() << "\n`heed help " << command
               << "` lists its flags\n";
  return kUsage;
}

int FailCall(Terminal& terminal, const absl::Status& status) {
  if (terminal.interrupted.stop_requested()) return kInterrupted;
  terminal.err << "heed: " << absl::StatusCodeToString(status.code()) << ": " << status.message() << "\n";
  const std::string_view advice = Advice(status.code());
  if (!advice.empty()) terminal.err << advice << "\n";
  return kFailed;
}

int Finish(Terminal& terminal, int status) {
  if (terminal.out.flush()) return status;
  return Fail(terminal, absl::DataLossError("the output could not be written"));
}

Progress::Progress(Terminal& terminal, std::string_view unit)
    : terminal_(terminal), unit_(unit), begin_nanos_(absl::GetCurrentTimeNanos()) {}

Progress::~Progress() {
  if (count_ > 0 && terminal_.err_is_screen && !terminal_.out_is_screen)
    terminal_.err << "\r\x1b[K" << std::flush;
}

void Progress::Add(int64_t count) {
  count_ += count;
  if (!terminal_.err_is_screen || terminal_.out_is_screen) return;
  const double seconds = 1e-9 * static_cast<double>(absl::GetCurrentTimeNanos() - begin_nanos_);
  terminal_.err << absl::StrFormat("\r%d %s, %.0f a second\x1b[K", count_, unit_,
                                   count_ / std::max(seconds, 1e-3))
                << std::flush;
}

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  CHECK(google::protobuf::util::MessageToJsonString(message, &json, options).ok());
  return json;
}

std::string OneLine(std::string_view utf8, int64_t limit) {
  std::string line;
  int64_t characters = 0;
  for (const char c : utf8) {
    const bool begins = (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    if (begins && characters++ == limit) return line + "…";
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    line += control ? ' ' : c;
  }
  return line;
}

std::string Quoted(std::string_view bytes) {
  const absl::string_view text(bytes.data(), bytes.size());
  return Cat("\"", ValidUtf8(bytes) ? absl::Utf8SafeCEscape(text) : absl::CHexEscape(text), "\"");
}

}  // namespace heed
