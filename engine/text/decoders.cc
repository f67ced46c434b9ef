#include "engine/text/decoders.h"

#include "absl/strings/str_replace.h"
#include "engine/base/status.h"

namespace heed {
namespace {

class Spaced : public Decoder {
 public:
  void Decode(std::vector<std::string>& tokens) const override {
    for (size_t i = 1; i < tokens.size(); ++i) tokens[i].insert(0, " ");
  }
};

// A token that begins with the prefix goes on where the last one ended; the others begin after a space.
class WordPiece : public Decoder {
 public:
  WordPiece(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}

  void Decode(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && tokens[i].starts_with(prefix_)) {
        tokens[i].erase(0, prefix_.size());
      } else if (i > 0) {
        tokens[i].insert(0, " ");
      }
      if (cleanup_) CleanUp(tokens[i]);
    }
  }

 private:
  // English punctuation, joined to the word before it.
  static void CleanUp(std::string& token) {
    for (const auto& [from, to] : {std::pair{" .", "."},
                                   {" ?", "?"},
                                   {" !", "!"},
                                   {" ,", ","},
                                   {" ' ", "'"},
                                   {" n't", "n't"},
                                   {" 'm", "'m"},
                                   {" do not", " don't"},
                                   {" 's", "'s"},
                                   {" 've", "'ve"},
                                   {" 're", "'re"}}) {
      absl::StrReplaceAll({{from, to}}, &token);
    }
  }

  const std::string prefix_;
  const bool cleanup_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Decoder>> NewDecoder(const Json& json, const std::string& where) {
  if (json.is_null()) return std::make_unique<Spaced>();
  JsonFields fields(json, where);
  const std::string type = fields.String("type", "");
  if (type != "WordPiece") {
    fields.Fail(Cat("type ", Shown(type), " is none that Heed reads"));
    return fields.Finish();
  }
  std::string prefix = fields.String("prefix", "##");
  const bool cleanup = fields.Bool("cleanup", true);
  RETURN_IF_ERROR(fields.Finish());
  return std::make_unique<WordPiece>(std::move(prefix), cleanup);
}

}  // namespace heed
