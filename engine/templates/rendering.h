// One rendering of a template: variables, the text so far, and what is left of its budget.
#ifndef HEED_ENGINE_TEMPLATES_RENDERING_H_
#define HEED_ENGINE_TEMPLATES_RENDERING_H_

#include <ctime>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/templates/arguments.h"
#include "engine/templates/syntax.h"
#include "engine/templates/value.h"

namespace heed::jinja {

using Variables = std::map<std::string, Value, std::less<>>;
using Clock = std::function<std::tm()>;  // local time, for strftime_now()

class Rendering {
 public:
  // The body must outlive it.
  Rendering(Variables variables, Budget budget, Clock now);

  // INVALID_ARGUMENT: raise_exception's own message; or "line N: " and what was wrong there.
  absl::StatusOr<std::string> Run(const Body& body);

 private:
  using Evaluated = absl::StatusOr<Value>;
  enum class Flow { kOn, kBreak, kContinue };

  // What each step begins with: fails where there are too many, or they are nested too deeply.
  absl::Status Enter(int line);

  // statements
  absl::StatusOr<Flow> RunBody(const Body& body);
  absl::StatusOr<Flow> RunStatement(const Statement& statement);
  absl::StatusOr<Flow> RunIf(const Statement& statement);
  absl::StatusOr<Flow> RunFor(const Statement& statement);
  absl::StatusOr<Flow> RunScope(const Statement& statement);
  absl::StatusOr<Flow> RunInScope(const Body& body, Variables variables);
  absl::StatusOr<std::shared_ptr<const Sequence>> ItemsFor(const Statement& statement);
  absl::StatusOr<std::string> Printed(const Body& body, Variables variables);
  absl::Status RunSet(const Statement& statement);
  absl::Status RunSetMember(const Statement& statement);
  absl::Status RunSetBlock(const Statement& statement);
  absl::Status Assign(const std::vector<std::string>& targets, const Value& value, Variables& scope);
  void Print(std::string_view text);

  // expressions
  Evaluated Evaluate(const Expression& expression);
  Evaluated EvaluateKind(const Expression& expression);
  absl::StatusOr<List> EvaluateAll(const Expression& expression, size_t from);
  Evaluated EvaluateName(const Expression& expression);
  Evaluated EvaluateDict(const Expression& expression);
  Evaluated EvaluateConcat(const Expression& expression);
  Evaluated EvaluateComparison(const Expression& expression);
  absl::StatusOr<bool> Compare(std::string_view spelled, const Value& left, const Value& right);
  Evaluated EvaluateConditional(const Expression& expression);
  Evaluated EvaluateSlice(const Expression& expression);
  Evaluated EvaluateCall(const Expression& expression);
  absl::StatusOr<Arguments> EvaluateArguments(const Expression& expression);
  Evaluated Call(const Value& callee, const Arguments& arguments);
  Evaluated CallMacro(const Macro& macro, const Arguments& arguments);
  Evaluated CallFunction(std::string_view name, const Arguments& arguments);
  Evaluated Range(const Arguments& arguments);
  Evaluated Raise(const Arguments& arguments);
  Evaluated Now(const Arguments& arguments);

  std::vector<Variables> scopes_;  // the template's, and within it those of blocks; the innermost is last
  std::string out_;
  Budget budget_;
  const Clock now_;
  int line_ = 1;         // of what runs
  int depth_ = 0;        // of steps within one another
  bool raised_ = false;  // the template itself said that it fails
};

}  // namespace heed::jinja

#endif  // HEED_ENGINE_TEMPLATES_RENDERING_H_
