// Templates in Jinja, as transformers renders chat templates: the language that these use, with Jinja's white
// space, scopes and errors, and nothing that reaches beyond the template. What of Jinja is not here (template
// inheritance, recursive loops, call blocks, ...) is refused when a template is read, by name and line.
//
// A template is a file's content, so nothing in it is trusted: it cannot nest, loop or print without limit.
#ifndef HEED_ENGINE_TEMPLATES_TEMPLATE_H_
#define HEED_ENGINE_TEMPLATES_TEMPLATE_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/templates/rendering.h"

namespace heed::jinja {

// Const and thread-safe.
class Template {
 public:
  // INVALID_ARGUMENT, "line N: ...": not UTF-8, above 1 MiB, no template, or something unsupported.
  static absl::StatusOr<Template> Parse(std::string_view source);

  // `units`: what it may do, about a step or a byte each. `now`: for strftime_now(). INVALID_ARGUMENT with
  // the message that the template raises, its first 400 bytes, or "line N: ..." and what is wrong there.
  absl::StatusOr<std::string> Render(Variables variables, int64_t units, const Clock& now) const;

 private:
  explicit Template(std::shared_ptr<const Body> body) : body_(std::move(body)) {}
  std::shared_ptr<const Body> body_;
};

}  // namespace heed::jinja

#endif  // HEED_ENGINE_TEMPLATES_TEMPLATE_H_
