// Who may do what: bearer tokens, each with the methods and models that it is good for. A token itself is
// kept nowhere: it is known by its SHA-256.
#ifndef HEED_SERVER_TOKENS_H_
#define HEED_SERVER_TOKENS_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace heed {

// What a token is good for. Nothing, where nothing is named.
struct Rights {
  std::string name;                  // the token's, for messages
  std::vector<std::string> methods;  // "heed.v1.Inference/Classify", "heed.v1.Inference/*", "*"
  std::vector<std::string> models;   // names, "*"
};

// METHOD_FORBIDDEN. `method`: "heed.v1.Inference/Classify".
absl::Status CheckMethod(const Rights& rights, std::string_view method);
// MODEL_FORBIDDEN, whether there is such a model or not. `rights`: null for all of them.
absl::Status CheckModel(const Rights* rights, std::string_view model);

// All that there are; they do not change.
class KnownTokens {
 public:
  struct Entry {
    std::string sha256;  // 64 hexadecimal digits, small letters
    std::shared_ptr<const Rights> rights;
  };
  explicit KnownTokens(std::vector<Entry> entries) : entries_(std::move(entries)) {}

  // Null if there is no such token. How long it takes tells nothing of the others.
  std::shared_ptr<const Rights> Find(std::string_view token) const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace heed

#endif  // HEED_SERVER_TOKENS_H_
