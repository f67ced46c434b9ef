// A template's text as statements.
#ifndef HEED_ENGINE_TEMPLATES_PARSER_H_
#define HEED_ENGINE_TEMPLATES_PARSER_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/templates/syntax.h"

namespace heed::jinja {

// `source` is valid UTF-8. INVALID_ARGUMENT, "line N: ...", for what is no template, and for what of Jinja is
// not supported, by its name.
absl::StatusOr<Body> Parse(std::string_view source);

}  // namespace heed::jinja

#endif  // HEED_ENGINE_TEMPLATES_PARSER_H_
