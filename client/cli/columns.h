// What `heed top` tells of each model, and how models are ordered by it.
#ifndef HEED_CLIENT_CLI_COLUMNS_H_
#define HEED_CLIENT_CLI_COLUMNS_H_

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "client/cli/keys.h"
#include "client/cli/rates.h"

namespace heed::cli {

struct Column {
  using Word = std::function<std::string(const ModelActivity&)>;
  struct Number {
    std::function<Figure(const ModelActivity&)> of;
    std::string (*text)(double);  // how it is shown
  };

  std::string_view name;  // as --sort takes it
  std::string_view title;
  Key key;                // sorts by it
  std::string_view help;  // what it tells
  std::variant<Word, Number> what;

  bool is_word() const { return std::holds_alternative<Word>(what); }
};

// In the order of the lines; the first is the model's name.
const std::vector<Column>& Columns();

// "-" of a number that is not there. No terminal obeys it.
std::string CellOf(const Column& column, const ModelActivity& model);

// Whether the one is to come before the other: words from A on, numbers from the largest on, those that are
// not there last.
bool Before(const Column& column, const ModelActivity& one, const ModelActivity& other);

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_COLUMNS_H_
