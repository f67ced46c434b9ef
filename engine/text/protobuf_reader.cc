#include "engine/text/protobuf_reader.h"

#include <bit>

#include "engine/base/status.h"

namespace heed {
namespace {

constexpr uint64_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;  // types of the wire
constexpr uint64_t kMaxNumber = (1 << 29) - 1;                           // of a field

}  // namespace

bool ProtobufReader::Fail(std::string_view message) {
  status_.Update(Invalid(where_, ": ", message));
  return false;
}

bool ProtobufReader::Next() {
  if (!status_.ok() || rest_.empty()) return false;
  uint64_t tag = 0, size = 0;
  if (!TakeVarint(tag)) return false;
  number_ = tag >> 3;
  type_ = tag & 7;
  if (number_ == 0 || number_ > kMaxNumber) {
    return Fail(Cat("byte ", size_ - rest_.size(), ": ", number_, " is no field's number, which are 1 to ",
                    kMaxNumber));
  }
  if (type_ == kVarint) return TakeVarint(varint_);
  if (type_ == kFixed64) return Take(8);
  if (type_ == kFixed32) return Take(4);
  if (type_ == kBytes) return TakeVarint(size) && Take(size);
  return Fail(Cat("byte ", size_ - rest_.size(), ": a field of type ", type_, ", which Heed does not read"));
}

// Seven bits a byte, the lowest first; the eighth says that more follow.
bool ProtobufReader::TakeVarint(uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) return Fail(Cat("ends within a number, at byte ", size_));
    const uint64_t byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return Fail(Cat("byte ", size_ - rest_.size(), ": a number of more than 10 bytes"));
}

bool ProtobufReader::Take(uint64_t size) {
  if (size > rest_.size()) {
    return Fail(
        Cat("byte ", size_ - rest_.size(), ": a field of ", size, " bytes, but ", rest_.size(), " are left"));
  }
  bytes_ = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return true;
}

bool ProtobufReader::Expect(std::string_view name, uint64_t type, std::string_view type_name) {
  return type_ == type || Fail(Cat(name, " is not ", type_name));
}

int64_t ProtobufReader::Int(std::string_view name, int64_t min, int64_t max) {
  if (!Expect(name, kVarint, "a whole number")) return min;
  const auto value = static_cast<int64_t>(varint_);
  if (value >= min && value <= max) return value;
  Fail(Cat(name, ": ", value, " is not from ", min, " to ", max));
  return min;
}

float ProtobufReader::Float(std::string_view name) {
  if (!Expect(name, kFixed32, "a number of four bytes")) return 0;
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits |= uint32_t{static_cast<uint8_t>(bytes_[i])} << 8 * i;
  return std::bit_cast<float>(bits);
}

std::string_view ProtobufReader::Bytes(std::string_view name) {
  return Expect(name, kBytes, "text or bytes") ? bytes_ : std::string_view();
}

}  // namespace heed
