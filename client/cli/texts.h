// The texts of a command: its arguments, then its files, or standard input where there is neither. Read as
// they are needed, so that a file may be longer than memory and a pipe may go on for ever.
#ifndef HEED_CLIENT_CLI_TEXTS_H_
#define HEED_CLIENT_CLI_TEXTS_H_

#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/terminal.h"
#include "heed/v1/common.pb.h"

namespace heed::cli {

struct Text {
  std::string text;   // valid UTF-8
  std::string where;  // "argument 2", "notes.txt:17", "standard input:4": begins messages about it
};

// What one text of a file is. An argument is always one.
enum class Unit {
  kLine,  // without its line end
  kFile,  // the whole file, without its last line end
};

class Texts {
 public:
  // The argument or file "-" is standard input.
  Texts(const std::vector<std::string>& arguments, const std::vector<std::string>& files, Unit unit,
        Terminal& terminal);

  // The next texts, at most `most`; none at the end. Someone who types gets an answer to each line: then they
  // come singly. An error names the file, and the line that is not valid UTF-8.
  absl::StatusOr<std::vector<Text>> Next(size_t most);

 private:
  struct Source {
    std::string value;  // an argument, or a file's name
    bool is_file = false;
  };
  absl::StatusOr<std::optional<Text>> One();
  absl::Status Open(const std::string& name);
  bool Read(std::string* text);
  bool ReadFile(std::string* text);

  Unit unit_;
  Terminal& terminal_;
  std::vector<Source> sources_;
  size_t next_ = 0;                 // of sources_
  std::istream* stream_ = nullptr;  // the file being read: file_ or standard input
  std::ifstream file_;
  std::string name_;
  int64_t line_ = 0;
};

// How a text becomes an input: the flag --as.
enum class InputForm {
  kText,
  kTokens,  // ids with spaces or commas between
  kPair,    // two texts with a tab between
  kChat,    // the first message of a conversation, a user's
};
absl::Status ToInput(const Text& text, InputForm form, v1::Input* input);

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_TEXTS_H_
