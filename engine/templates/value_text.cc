// Values as text: str(), repr() and json.dumps() of Python.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "engine/base/status.h"
#include "engine/templates/value.h"

namespace heed::jinja {
namespace {

// Appends while there is budget; what is beyond is never shown to anyone.
void Append(std::string_view text, std::string& out, Budget& budget) {
  if (budget.Spend(std::ssize(text))) out += text;
}

void AppendRepr(const Value& value, std::string& out, Budget& budget);

void AppendQuoted(std::string_view text, std::string& out, Budget& budget) {
  const bool double_quoted = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = double_quoted ? '"' : '\'';
  if (!budget.Spend(2 * std::ssize(text))) return;
  out += quote;
  for (const char c : text) {
    if (c == quote || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += absl::StrFormat("\\x%02x", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  out += quote;
}

void AppendItems(const Sequence& sequence, std::string& out, Budget& budget) {
  out += sequence.is_tuple ? '(' : '[';
  for (size_t i = 0; i < sequence.items.size() && !budget.spent(); ++i) {
    if (i > 0) out += ", ";
    AppendRepr(sequence.items[i], out, budget);
  }
  if (sequence.is_tuple && sequence.items.size() == 1) out += ',';
  out += sequence.is_tuple ? ')' : ']';
}

void AppendEntries(const Mapping& mapping, std::string& out, Budget& budget) {
  out += '{';
  for (size_t i = 0; i < mapping.entries.size() && !budget.spent(); ++i) {
    if (i > 0) out += ", ";
    AppendRepr(mapping.entries[i].first, out, budget);
    out += ": ";
    AppendRepr(mapping.entries[i].second, out, budget);
  }
  out += '}';
}

void AppendNames(const Namespace& names, std::string& out, Budget& budget) {
  out += "<Namespace {";
  bool first = true;
  for (const auto& [name, value] : names.attributes) {
    if (!std::exchange(first, false)) out += ", ";
    AppendQuoted(name, out, budget);
    out += ": ";
    AppendRepr(value, out, budget);
  }
  out += "}>";
}

// Of what is neither text nor a container.
std::string Plain(const Value& value) {
  if (value.none()) return "None";
  if (const bool* truth = value.As<bool>()) return *truth ? "True" : "False";
  if (value.is_integer()) return Cat(value.integer());
  if (const double* number = value.As<double>()) return ShownNumber(*number);
  return Cat("<", TypeOf(value), ">");
}

void AppendRepr(const Value& value, std::string& out, Budget& budget) {
  if (!budget.Spend(4)) return;
  if (value.undefined()) return Append("Undefined", out, budget);
  if (value.text()) return AppendQuoted(*value.text(), out, budget);
  if (value.sequence()) return AppendItems(*value.sequence(), out, budget);
  if (value.mapping()) return AppendEntries(*value.mapping(), out, budget);
  if (value.names()) return AppendNames(*value.names(), out, budget);
  Append(Plain(value), out, budget);
}

class JsonWriter {
 public:
  JsonWriter(int indent, bool sort_keys, Budget& budget)
      : indent_(indent), sort_keys_(sort_keys), budget_(budget) {}

  absl::Status Write(const Value& value, int depth) {
    if (!budget_.Spend(4)) return absl::OkStatus();
    if (value.text()) return Quote(*value.text()), absl::OkStatus();
    if (value.sequence()) return WriteItems(value.sequence()->items, depth);
    if (value.mapping()) return WriteEntries(value.mapping()->entries, depth);
    ASSIGN_OR_RETURN(const std::string plain, PlainJson(value));
    Append(plain, text, budget_);
    return absl::OkStatus();
  }

  std::string text;

 private:
  static absl::StatusOr<std::string> PlainJson(const Value& value) {
    if (value.none()) return "null";
    if (const bool* truth = value.As<bool>()) return *truth ? "true" : "false";
    if (value.is_number()) return Plain(value);
    return Invalid("a ", TypeOf(value), " is no JSON");
  }

  void Quote(std::string_view of) {
    if (!budget_.Spend(2 * std::ssize(of))) return;
    text += '"';
    for (const char c : of) {
      constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f", kBy = "\"\\nrtbf";
      if (const size_t at = kEscaped.find(c); at != kEscaped.npos) {
        text += {'\\', kBy[at]};
      } else if (static_cast<unsigned char>(c) < 0x20) {
        text += absl::StrFormat("\\u%04x", static_cast<int>(c));
      } else {
        text += c;
      }
    }
    text += '"';
  }

  void Between(bool first, int depth) {
    if (!first) text += indent_ < 0 ? ", " : ",";
    NewLine(depth);
  }
  void NewLine(int depth) {
    if (indent_ >= 0 && budget_.Spend(int64_t{depth} * indent_))
      text += "\n" + std::string(depth * indent_, ' ');
  }

  absl::Status WriteItems(const List& items, int depth) {
    text += '[';
    for (size_t i = 0; i < items.size() && !budget_.spent(); ++i) {
      Between(i == 0, depth + 1);
      RETURN_IF_ERROR(Write(items[i], depth + 1));
    }
    if (!items.empty()) NewLine(depth);
    text += ']';
    return absl::OkStatus();
  }

  absl::Status WriteEntries(const Dict& entries, int depth) {
    std::vector<std::pair<std::string, const Value*>> named;
    for (const auto& [key, value] : entries) {
      if (key.text()) {
        named.emplace_back(*key.text(), &value);
      } else {
        ASSIGN_OR_RETURN(std::string name, PlainJson(key));
        named.emplace_back(std::move(name), &value);
      }
    }
    if (sort_keys_) std::ranges::stable_sort(named, {}, [](const auto& entry) { return entry.first; });
    text += '{';
    for (size_t i = 0; i < named.size() && !budget_.spent(); ++i) {
      Between(i == 0, depth + 1);
      Quote(named[i].first);
      text += ": ";
      RETURN_IF_ERROR(Write(*named[i].second, depth + 1));
    }
    if (!named.empty()) NewLine(depth);
    text += '}';
    return absl::OkStatus();
  }

  const int indent_;
  const bool sort_keys_;
  Budget& budget_;
};

}  // namespace

std::string Str(const Value& value, Budget& budget) {
  if (value.undefined()) return "";
  if (value.text()) return budget.Spend(std::ssize(*value.text())) ? *value.text() : "";
  return Repr(value, budget);
}

std::string Repr(const Value& value, Budget& budget) {
  std::string out;
  AppendRepr(value, out, budget);
  return out;
}

absl::StatusOr<std::string> ToJson(const Value& value, int indent, bool sort_keys, Budget& budget) {
  JsonWriter writer(indent, sort_keys, budget);
  RETURN_IF_ERROR(writer.Write(value, 0));
  return std::move(writer.text);
}

}  // namespace heed::jinja
