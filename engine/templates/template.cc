#include "engine/templates/template.h"

#include <utility>

#include "engine/base/status.h"
#include "engine/templates/parser.h"
#include "engine/text/tokenizer.h"

namespace heed::jinja {

absl::StatusOr<Template> Template::Parse(std::string_view source) {
  constexpr size_t kMostBytes = 1 << 20;
  if (source.size() > kMostBytes)
    return Invalid("the template has ", source.size(), " bytes, at most ", kMostBytes);
  if (!ValidUtf8(source)) return Invalid("the template is not UTF-8");
  ASSIGN_OR_RETURN(Body body, jinja::Parse(source));
  return Template(std::make_shared<const Body>(std::move(body)));
}

absl::StatusOr<std::string> Template::Render(Variables variables, int64_t units, const Clock& now) const {
  return Rendering(std::move(variables), Budget(units), now).Run(*body_);
}

}  // namespace heed::jinja
