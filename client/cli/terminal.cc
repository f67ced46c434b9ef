#include "client/cli/terminal.h"

#include <algorithm>

#include "absl/log/check.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "engine/base/status.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"
#include "google/protobuf/util/json_util.h"

namespace heed::cli {
namespace {

constexpr int64_t kLongestMessage = 2000;

// Whether a terminal may act on the character instead of showing it: controls (C0, DEL, C1), the marks,
// embeddings, overrides and isolates that turn the direction of writing, the separators of lines.
bool Obeyed(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x61C || c == 0x200E || c == 0x200F ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

void AppendEscaped(char32_t c, std::string* text) {
  absl::StrAppendFormat(text, c < 0x80 ? "\\x%02x" : "\\u%04x", static_cast<uint32_t>(c));
}

}  // namespace

int Fail(Terminal& terminal, const absl::Status& status) {
  terminal.err << "heed: " << OneLine(std::string(status.message()), kLongestMessage) << "\n";
  return kFailed;
}

int FailUsage(Terminal& terminal, std::string_view command, const absl::Status& status) {
  terminal.err << "heed " << command << ": " << OneLine(std::string(status.message()), kLongestMessage)
               << "\n`heed help " << command << "` lists its flags\n";
  return kUsage;
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

std::string ForScreen(std::string_view text) {
  const std::string utf8 = ReplaceInvalidUtf8(text);
  std::string shown;
  for (std::string_view rest = utf8; !rest.empty();) {
    const char32_t c = TakeCharacter(rest);
    if (Obeyed(c) && c != '\n' && c != '\t') {
      AppendEscaped(c, &shown);
    } else {
      AppendUtf8(c, shown);
    }
  }
  return shown;
}

std::string OneLine(std::string_view text, int64_t limit) {
  const std::string utf8 = ReplaceInvalidUtf8(text);
  std::string line;
  int64_t characters = 0;
  for (std::string_view rest = utf8; !rest.empty();) {
    if (characters++ == limit) return line + "…";
    const char32_t c = TakeCharacter(rest);
    if (c == '\n' || c == '\t' || c == '\r') {
      line += ' ';
    } else if (Obeyed(c)) {
      AppendEscaped(c, &line);
    } else {
      AppendUtf8(c, line);
    }
  }
  return line;
}

std::string Quoted(std::string_view bytes) {
  const absl::string_view text(bytes.data(), bytes.size());
  if (!ValidUtf8(bytes)) return Cat("\"", absl::CHexEscape(text), "\"");
  return Cat("\"", ForScreen(absl::Utf8SafeCEscape(text)), "\"");
}

// Protobuf writes most of what a terminal obeys as \uXXXX, but not all of it.
std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  CHECK(google::protobuf::util::MessageToJsonString(message, &json, options).ok());
  return ForScreen(json);
}

}  // namespace heed::cli
