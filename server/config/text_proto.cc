#include "server/config/text_proto.h"

#include <string>

#include "engine/base/status.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace heed {
namespace {

// Keeps the first error of a text proto.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  explicit FirstError(std::string_view where) : where_(where) {}
  void AddError(int line, int column, const std::string& message) override {
    if (status_.ok()) status_ = Invalid(where_, ":", line + 1, ":", column + 1, ": ", message);
  }
  void AddWarning(int line, int column, const std::string& message) override {}
  const absl::Status& status() const { return status_; }

 private:
  std::string where_;
  absl::Status status_;
};

}  // namespace

absl::Status ParseTextProto(std::string_view text, std::string_view where,
                            google::protobuf::Message* message) {
  FirstError errors(where);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  return parser.ParseFromString(std::string(text), message) ? absl::OkStatus() : errors.status();
}

}  // namespace heed
