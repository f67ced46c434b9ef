// The filters that make text. Those of lists are in filters.cc, where the table of all is.
#ifndef HEED_ENGINE_TEMPLATES_TEXT_FILTERS_H_
#define HEED_ENGINE_TEMPLATES_TEXT_FILTERS_H_

#include "absl/status/statusor.h"
#include "engine/templates/arguments.h"
#include "engine/templates/value.h"

namespace heed::jinja {

using Filtered = absl::StatusOr<Value>;

Filtered UpperFilter(const Value& value, const Arguments& arguments, Budget& budget);
Filtered LowerFilter(const Value& value, const Arguments& arguments, Budget& budget);
Filtered CapitalizeFilter(const Value& value, const Arguments& arguments, Budget& budget);
Filtered TitleFilter(const Value& value, const Arguments& arguments, Budget& budget);
Filtered TrimFilter(const Value& value, const Arguments& arguments, Budget& budget);
Filtered StringFilter(const Value& value, const Arguments& arguments, Budget& budget);
Filtered ReplaceFilter(const Value& value, const Arguments& arguments, Budget& budget);
Filtered FormatFilter(const Value& value, const Arguments& arguments, Budget& budget);
Filtered IndentFilter(const Value& value, const Arguments& arguments, Budget& budget);
Filtered WordCountFilter(const Value& value, const Arguments& arguments, Budget& budget);
Filtered ToJsonFilter(const Value& value, const Arguments& arguments, Budget& budget);

// `text % values` of Python: %s %r %d %i %f %e %g %x %%, with flags, width and precision.
absl::StatusOr<std::string> Formatted(const std::string& text, const List& values, Budget& budget);
// Of the first `most` places; < 0: of all.
std::string Replaced(std::string_view text, std::string_view from, std::string_view to, int64_t most,
                     Budget& budget);

}  // namespace heed::jinja

#endif  // HEED_ENGINE_TEMPLATES_TEXT_FILTERS_H_
