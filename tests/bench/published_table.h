// The one table of published figures and ours.
#ifndef HEED_TESTS_BENCH_PUBLISHED_TABLE_H_
#define HEED_TESTS_BENCH_PUBLISHED_TABLE_H_

#include <cstdint>
#include <string>

#include "engine/base/status.h"
#include "tests/bench/measure.h"

namespace heed {

// How many times better than what it is compared with; 0: not measured, or not published.
struct PublishedRatio {
  std::string id, variant;
  int64_t rows = 0;
  std::string against;  // "time of full"
  double theirs = 0;
  double attention = 0, model = 0;  // ours: attention alone, whole models
  double allowed = 0;               // of `attention`, by multiply-adds
  double ceiling = 0;               // of `model`, by multiply-adds
  std::string ours{};               // what was measured: "1.2 ms, 4.5 ms"
  std::string reason{};             // why ours may be less than theirs
};

class PublishedTable {
 public:
  void Row(const PublishedRatio& row) {
    const std::string reached = Reached(row);
    table_.Row({row.id, row.variant, Cat(row.rows), row.against, Text(row.theirs), Text(row.attention),
                Text(row.allowed), Text(row.model), Text(row.ceiling), reached, row.ours,
                reached == "no" ? row.reason : ""});
  }

 private:
  static std::string Text(double ratio) { return ratio == 0 ? "-" : Times(ratio); }
  static std::string Reached(const PublishedRatio& row) {
    if (row.theirs == 0) return "-";
    const bool attention = row.attention >= row.theirs, model = row.model >= row.theirs;
    return attention && model ? "both" : attention ? "attention" : model ? "model" : "no";
  }

  Table table_ = Table({"id", "variant         ", "rows", "against              ", "theirs", "attention",
                        "allowed", "model", "ceiling", "reached", "ours                                    ",
                        "why not                                                     "});
};

}  // namespace heed

#endif  // HEED_TESTS_BENCH_PUBLISHED_TABLE_H_
