// Rows of a table, by the names of a model's columns, as what the model reads of them.
#ifndef HEED_SERVER_API_TABLE_INPUTS_H_
#define HEED_SERVER_API_TABLE_INPUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/models/table_schema.h"
#include "heed/v1/common.pb.h"
#include "heed/v1/models.pb.h"

namespace heed {

struct TableCells {
  std::vector<int32_t> ids;    // of each row's categorical columns, row after row
  std::vector<float> numbers;  // of its numerical ones, normalised
};

// Appends a row. An error names the field below `where`, "inputs[0].row", with the column, the value and what
// is possible.
absl::Status AppendRow(const v1::Row& row, const TableSchema& schema, const std::string& where,
                       TableCells* cells);

// What DescribeModel says of the columns.
v1::TableInput ToMessage(const TableSchema& schema);

}  // namespace heed

#endif  // HEED_SERVER_API_TABLE_INPUTS_H_
