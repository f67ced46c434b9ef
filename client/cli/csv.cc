#include "client/cli/csv.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "engine/text/tokenizer.h"

namespace heed::cli {
namespace {

constexpr int64_t kMostBytes = 1 << 20;  // of a record
constexpr int kEnd = std::istream::traits_type::eof();

// Whether one of them has this name.
template <typename Columns>
bool Names(const Columns& columns, const std::string& name) {
  return std::ranges::any_of(columns, [&](const auto& column) { return column.name() == name; });
}

std::string NamesOf(const v1::TableInput& schema) {
  std::vector<std::string> names;
  for (const auto& column : schema.categorical()) names.push_back(column.name());
  for (const auto& column : schema.numerical()) names.push_back(column.name());
  return absl::StrJoin(names, ", ");
}

}  // namespace

// ----------------------------------------------------------------------------------------------- records

std::string CsvReader::where() const { return Cat(name_, ":", begin_); }

absl::StatusOr<std::optional<std::vector<std::string>>> CsvReader::Next() {
  std::string begun = begin_ == 0 ? TakeByteOrderMark() : "";
  while (in_->peek() != kEnd || !begun.empty()) {
    begin_ = line_;
    bytes_ = 0;
    std::vector<std::string> cells;
    for (bool more = true; more;) {
      cells.push_back(std::exchange(begun, ""));
      ASSIGN_OR_RETURN(more, ReadCell(&cells.back()));
      if (!ValidUtf8(cells.back())) return Invalid(where(), ": not valid UTF-8");
    }
    if (cells.size() > 1 || !cells[0].empty()) return cells;
  }
  if (in_->bad()) return absl::DataLossError(Cat(name_, ": ", std::strerror(errno)));
  return std::nullopt;
}

// What some programs begin a file with; gives what was taken and is none.
std::string CsvReader::TakeByteOrderMark() {
  static constexpr std::string_view kMark = "\xEF\xBB\xBF";
  std::string taken;
  while (taken.size() < kMark.size() && in_->peek() == static_cast<unsigned char>(kMark[taken.size()]))
    taken += static_cast<char>(in_->get());
  return taken == kMark ? "" : taken;
}

void CsvReader::SkipSpace() {
  while (in_->peek() == ' ' || in_->peek() == '\t' || in_->peek() == '\r') in_->get();
}

absl::StatusOr<bool> CsvReader::ReadCell(std::string* cell) {
  RETURN_IF_ERROR(Count());
  if (cell->empty()) SkipSpace();
  if (cell->empty() && in_->peek() == '"') {
    RETURN_IF_ERROR(ReadQuoted(cell));
    SkipSpace();
  } else {
    RETURN_IF_ERROR(ReadPlain(cell));
  }
  const int next = in_->get();
  if (next == '\n') ++line_;
  if (next == ',' || next == '\n' || next == kEnd) return next == ',';
  return Invalid(name_, ":", line_, ": text follows a quoted cell, before the next comma");
}

absl::Status CsvReader::ReadQuoted(std::string* cell) {
  in_->get();
  for (;;) {
    const int byte = in_->get();
    if (byte == kEnd) return Invalid(where(), ": a quote that is not closed");
    if (byte == '"' && in_->peek() != '"') return absl::OkStatus();
    if (byte == '"') in_->get();
    if (byte == '\n') ++line_;
    RETURN_IF_ERROR(Count());
    cell->push_back(static_cast<char>(byte));
  }
}

absl::Status CsvReader::ReadPlain(std::string* cell) {
  for (int byte = in_->peek(); byte != ',' && byte != '\n' && byte != kEnd; byte = in_->peek()) {
    RETURN_IF_ERROR(Count());
    cell->push_back(static_cast<char>(in_->get()));
  }
  absl::StripTrailingAsciiWhitespace(cell);
  return absl::OkStatus();
}

absl::Status CsvReader::Count() {
  if (++bytes_ > kMostBytes) return Invalid(where(), ": a record of more than ", kMostBytes, " bytes");
  return absl::OkStatus();
}

// -------------------------------------------------------------------------------------------------- rows

TableRows::TableRows(const std::string& file, const v1::TableInput& schema,
                     const std::vector<std::string>& left_out, Terminal& terminal)
    : schema_(schema),
      left_out_(left_out),
      file_(file == "-" ? std::ifstream() : std::ifstream(file, std::ios::binary)),
      reader_(file == "-" ? &terminal.in : &file_, file == "-" ? "standard input" : file) {
  if (file != "-" && !file_) opened_ = absl::NotFoundError(Cat(file, ": ", std::strerror(errno)));
}

absl::StatusOr<std::vector<TableRow>> TableRows::Next(size_t most) {
  RETURN_IF_ERROR(opened_);
  if (columns_.empty()) RETURN_IF_ERROR(ReadHeader());
  std::vector<TableRow> rows;
  while (rows.size() < most) {
    ASSIGN_OR_RETURN(const std::optional<std::vector<std::string>> cells, reader_.Next());
    if (!cells) break;
    ASSIGN_OR_RETURN(v1::Row row, RowOf(*cells));
    rows.push_back({std::move(row), reader_.where()});
  }
  return rows;
}

absl::Status TableRows::ReadHeader() {
  ASSIGN_OR_RETURN(const std::optional<std::vector<std::string>> names, reader_.Next());
  if (!names) return Invalid(reader_.name(), ": no header, which names the columns ", NamesOf(schema_));
  for (const std::string& name : *names) {
    if (std::ranges::find(columns_, name, &Column::name) != columns_.end())
      return Invalid(reader_.where(), ": the column ", Quoted(name), " is there twice");
    ASSIGN_OR_RETURN(columns_.emplace_back(), ColumnOf(name));
  }
  const auto check = [&](const auto& columns) -> absl::Status {
    for (const auto& column : columns) {
      const auto found = std::ranges::find(columns_, column.name(), &Column::name);
      if (found == columns_.end() || found->kind == Column::Kind::kLeftOut)
        return Invalid(reader_.where(), ": the column ", Quoted(column.name()), " of the model is missing");
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(check(schema_.categorical()));
  return check(schema_.numerical());
}

absl::StatusOr<TableRows::Column> TableRows::ColumnOf(const std::string& name) const {
  if (std::ranges::find(left_out_, name) != left_out_.end()) return Column{name, Column::Kind::kLeftOut};
  if (Names(schema_.categorical(), name)) return Column{name, Column::Kind::kCategorical};
  if (Names(schema_.numerical(), name)) return Column{name, Column::Kind::kNumerical};
  return Invalid(reader_.where(), ": the model has no column ", Quoted(name), ", it has ", NamesOf(schema_),
                 "; --skip_column leaves one out");
}

absl::StatusOr<v1::Row> TableRows::RowOf(const std::vector<std::string>& cells) const {
  if (cells.size() != columns_.size())
    return Invalid(reader_.where(), ": ", cells.size(), " cells, the header has ", columns_.size());
  v1::Row row;
  for (size_t i = 0; i < cells.size(); ++i) {
    const auto& [name, kind] = columns_[i];
    if (cells[i].empty() || kind == Column::Kind::kLeftOut) continue;
    if (kind == Column::Kind::kCategorical) {
      (*row.mutable_categories())[name] = cells[i];
      continue;
    }
    double& number = (*row.mutable_numbers())[name];
    if (!absl::SimpleAtod(cells[i], &number) || !std::isfinite(number))
      return Invalid(reader_.where(), ": in column ", Quoted(name), " stands ", Quoted(cells[i]),
                     ", which is no number");
  }
  return row;
}

}  // namespace heed::cli
