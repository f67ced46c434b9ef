// Tables as CSV files (RFC 4180): cells with commas between, a record a line; a cell in double quotes may
// hold commas, line ends and, doubled, quotes. Space around a cell without quotes is no part of it, and lines
// without anything are left out. Read as they are needed.
#ifndef HEED_CLIENT_CLI_CSV_H_
#define HEED_CLIENT_CLI_CSV_H_

#include <cstdint>
#include <fstream>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/terminal.h"
#include "heed/v1/common.pb.h"
#include "heed/v1/models.pb.h"

namespace heed::cli {

class CsvReader {
 public:
  // The file's name begins messages.
  CsvReader(std::istream* in, std::string name) : in_(in), name_(std::move(name)) {}

  // The cells of the next record; none at the end. An error names the line: a quote that is not closed, text
  // behind one that is, what is not valid UTF-8, a record of more than 1 MiB.
  absl::StatusOr<std::optional<std::vector<std::string>>> Next();
  // Where the record that was given last begins: "people.csv:17".
  std::string where() const;
  const std::string& name() const { return name_; }

 private:
  std::string TakeByteOrderMark();
  void SkipSpace();
  absl::StatusOr<bool> ReadCell(std::string* cell);  // whether another follows
  absl::Status ReadQuoted(std::string* cell);
  absl::Status ReadPlain(std::string* cell);
  absl::Status Count();  // a byte of the record

  std::istream* in_;
  std::string name_;
  int64_t line_ = 1, begin_ = 0;
  int64_t bytes_ = 0;  // of the record
};

struct TableRow {
  v1::Row row;
  std::string where;  // "people.csv:17": begins messages about it
};

// The rows of a CSV file whose first record names the columns, each of which is one of the model's or left
// out, all of the model's among them. A cell without text is a missing value.
class TableRows {
 public:
  // "-" is standard input. Names of `left_out` are those of columns that are not sent.
  TableRows(const std::string& file, const v1::TableInput& schema, const std::vector<std::string>& left_out,
            Terminal& terminal);

  // The next rows, at most `most`; none at the end. An error names the file and the line.
  absl::StatusOr<std::vector<TableRow>> Next(size_t most);

 private:
  struct Column {
    std::string name;
    enum class Kind { kLeftOut, kCategorical, kNumerical } kind = Kind::kLeftOut;
  };
  absl::Status ReadHeader();
  absl::StatusOr<Column> ColumnOf(const std::string& name) const;
  absl::StatusOr<v1::Row> RowOf(const std::vector<std::string>& cells) const;

  const v1::TableInput schema_;
  const std::vector<std::string> left_out_;
  std::ifstream file_;
  CsvReader reader_;
  absl::Status opened_;
  std::vector<Column> columns_;  // once the header was read
};

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_CSV_H_
