#include "client/cli/texts.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "engine/base/status.h"
#include "engine/text/tokenizer.h"

namespace heed::cli {

Texts::Texts(const std::vector<std::string>& arguments, const std::vector<std::string>& files, Unit unit,
             Terminal& terminal)
    : unit_(unit), terminal_(terminal) {
  for (const std::string& argument : arguments) sources_.push_back({argument, argument == "-"});
  for (const std::string& file : files) sources_.push_back({file, true});
  if (sources_.empty()) sources_.push_back({"-", true});
}

absl::StatusOr<std::vector<Text>> Texts::Next(size_t most) {
  std::vector<Text> texts;
  while (texts.size() < most) {
    ASSIGN_OR_RETURN(std::optional<Text> text, One());
    if (!text) break;
    texts.push_back(*std::move(text));
    if (stream_ == &terminal_.in && terminal_.in_is_screen) break;
  }
  return texts;
}

absl::StatusOr<std::optional<Text>> Texts::One() {
  Text text;
  for (;;) {
    if (stream_ != nullptr && Read(&text.text)) {
      ++line_;
      text.where = unit_ == Unit::kLine ? Cat(name_, ":", line_) : name_;
      break;
    }
    if (stream_ != nullptr && stream_->bad())
      return absl::DataLossError(Cat(name_, ": ", std::strerror(errno)));
    stream_ = nullptr;
    if (next_ == sources_.size()) return std::nullopt;
    const Source& source = sources_[next_++];
    if (!source.is_file) {
      text = {source.value, Cat("argument ", next_)};
      break;
    }
    RETURN_IF_ERROR(Open(source.value));
  }
  if (!ValidUtf8(text.text)) return Invalid(text.where, ": not valid UTF-8");
  return text;
}

absl::Status Texts::Open(const std::string& name) {
  line_ = 0;
  if (name == "-") {
    name_ = "standard input";
    stream_ = &terminal_.in;
    const std::string_view unit = unit_ == Unit::kLine ? "one text a line" : "one text";
    if (terminal_.in_is_screen) terminal_.err << "reading what you type, " << unit << "; Ctrl-D ends it\n";
    return absl::OkStatus();
  }
  name_ = name;
  file_ = std::ifstream(name, std::ios::binary);
  if (!file_) return absl::NotFoundError(Cat(name, ": ", std::strerror(errno)));
  stream_ = &file_;
  return absl::OkStatus();
}

// False at the end of the stream. The last line may lack its line end; a file may be empty and still be one
// text.
bool Texts::Read(std::string* text) {
  if (unit_ == Unit::kLine) {
    if (!std::getline(*stream_, *text)) return false;
  } else {
    if (line_ > 0 || !ReadFile(text)) return false;
  }
  if (text->ends_with('\r')) text->pop_back();
  return true;
}

// By lines, since a stream's own functions are those that do not throw where a file cannot be read.
bool Texts::ReadFile(std::string* text) {
  std::string_view gap = "";
  for (std::string line; std::getline(*stream_, line); gap = "\n") *text += Cat(gap, line);
  return !stream_->bad();
}

absl::Status ToInput(const Text& text, InputForm form, v1::Input* input) {
  if (form == InputForm::kText) {
    input->set_text(text.text);
    return absl::OkStatus();
  }
  if (form == InputForm::kPair) {
    const std::vector<std::string> parts = absl::StrSplit(text.text, '\t');
    if (parts.size() != 2)
      return Invalid(text.where, ": a pair is two texts with a tab between, found ", parts.size());
    input->mutable_pair()->set_first(parts[0]);
    input->mutable_pair()->set_second(parts[1]);
    return absl::OkStatus();
  }
  if (form == InputForm::kChat) {
    v1::Chat::Message* message = input->mutable_chat()->add_messages();
    message->set_role("user");
    message->set_content(text.text);
    return absl::OkStatus();
  }
  input->mutable_tokens();
  for (const absl::string_view word : absl::StrSplit(text.text, absl::ByAnyChar(" ,\t"), absl::SkipEmpty())) {
    int32_t id = -1;
    if (!absl::SimpleAtoi(word, &id) || id < 0) {
      return Invalid(text.where, ": token '", word, "' is not a whole number of 0 to 2147483647");
    }
    input->mutable_tokens()->add_ids(id);
  }
  return absl::OkStatus();
}

}  // namespace heed::cli
