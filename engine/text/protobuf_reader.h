// Reads a message in protobuf's wire format, field by field: for the few fields that Heed needs of
// SentencePiece's models. Every length is checked before it is believed, a field's type when its value is
// asked for.
#ifndef HEED_ENGINE_TEXT_PROTOBUF_READER_H_
#define HEED_ENGINE_TEXT_PROTOBUF_READER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace heed {

class ProtobufReader {
 public:
  // The bytes must outlive this; `where` begins messages: "spiece.model: pieces[3]".
  ProtobufReader(std::string_view message, std::string where)
      : rest_(message), size_(message.size()), where_(std::move(where)) {}

  // Goes to the next field; false after the last one and after an error.
  bool Next();
  uint64_t number() const { return number_; }

  // The field's value. One of another type, or out of range, is an error that calls it `name`; then it is
  // `min`, false, 0 or empty.
  int64_t Int(std::string_view name, int64_t min, int64_t max);
  bool Bool(std::string_view name) { return Int(name, 0, 1) != 0; }
  float Float(std::string_view name);
  std::string_view Bytes(std::string_view name);

  const absl::Status& status() const { return status_; }  // the first error

 private:
  bool Fail(std::string_view message);
  bool Expect(std::string_view name, uint64_t type, std::string_view type_name);
  bool TakeVarint(uint64_t& value);
  bool Take(uint64_t size);

  std::string_view rest_;
  size_t size_;
  std::string where_;
  uint64_t number_ = 0, type_ = 0, varint_ = 0;
  std::string_view bytes_;  // the value of all types but whole numbers
  absl::Status status_;
};

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_PROTOBUF_READER_H_
