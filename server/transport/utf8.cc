#include "server/transport/utf8.h"

#include <map>

#include "engine/base/status.h"
#include "engine/text/tokenizer.h"
#include "google/protobuf/unknown_field_set.h"

namespace heed {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

constexpr int kMaxDepth = 100;  // protobuf's own

std::string Find(const Descriptor& type, const std::string& bytes, int depth);

// In what one field holds: the path to it from that field on.
std::string FindIn(const FieldDescriptor& field, int index, const std::string& bytes, int depth) {
  const bool numbered = field.is_repeated() && !field.is_map();
  const std::string path = numbered ? Cat(field.name(), "[", index, "]") : field.name();
  if (field.type() == FieldDescriptor::TYPE_STRING) return ValidUtf8(bytes) ? "" : path;
  if (field.type() != FieldDescriptor::TYPE_MESSAGE) return "";
  const std::string rest = Find(*field.message_type(), bytes, depth - 1);
  if (rest.empty()) return "";
  return field.is_map() ? path : Cat(path, ".", rest);
}

// Read without its type a message has no texts, only bytes, which protobuf does not check.
std::string Find(const Descriptor& type, const std::string& bytes, int depth) {
  UnknownFieldSet fields;
  if (depth == 0 || !fields.ParseFromString(bytes)) return "";
  std::map<int, int> seen;  // of each number
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& found = fields.field(i);
    const FieldDescriptor* field = type.FindFieldByNumber(found.number());
    if (field == nullptr || found.type() != UnknownField::TYPE_LENGTH_DELIMITED) continue;
    std::string path = FindIn(*field, seen[found.number()]++, found.length_delimited(), depth);
    if (!path.empty()) return path;
  }
  return "";
}

}  // namespace

std::string FieldNotUtf8(const Descriptor& type, const std::string& bytes) {
  return Find(type, bytes, kMaxDepth);
}

}  // namespace heed
