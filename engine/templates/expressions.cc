// What expressions are worth.
#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "engine/base/status.h"
#include "engine/templates/methods.h"
#include "engine/templates/operators.h"
#include "engine/templates/rendering.h"
#include "engine/templates/value_tests.h"
#include "engine/text/unicode.h"

namespace heed::jinja {
namespace {

using Kind = Expression::Kind;

}  // namespace

Rendering::Evaluated Rendering::Evaluate(const Expression& expression) {
  ++depth_;
  const absl::Cleanup leave = [&] { --depth_; };
  RETURN_IF_ERROR(Enter(expression.line));
  return EvaluateKind(expression);
}

Rendering::Evaluated Rendering::EvaluateKind(const Expression& expression) {
  const auto part = [&](size_t i) { return Evaluate(*expression.parts[i]); };
  switch (expression.kind) {
    case Kind::kConstant:
      return expression.constant;
    case Kind::kName:
      return EvaluateName(expression);
    case Kind::kList:
    case Kind::kTuple: {
      ASSIGN_OR_RETURN(List items, EvaluateAll(expression, 0));
      return MakeList(std::move(items), expression.kind == Kind::kTuple);
    }
    case Kind::kDict:
      return EvaluateDict(expression);
    case Kind::kNot: {
      ASSIGN_OR_RETURN(const Value value, part(0));
      return Value(!Truth(value));
    }
    case Kind::kNegative: {
      ASSIGN_OR_RETURN(const Value value, part(0));
      return Negative(value);
    }
    case Kind::kPositive: {
      ASSIGN_OR_RETURN(const Value value, part(0));
      return Operate("+", Value(int64_t{0}), value, budget_);
    }
    case Kind::kOperation: {
      ASSIGN_OR_RETURN(const Value left, part(0));
      ASSIGN_OR_RETURN(const Value right, part(1));
      return Operate(expression.name, left, right, budget_);
    }
    case Kind::kConcat:
      return EvaluateConcat(expression);
    case Kind::kComparison:
      return EvaluateComparison(expression);
    case Kind::kAnd:
    case Kind::kOr: {
      ASSIGN_OR_RETURN(Value left, part(0));
      if (Truth(left) == (expression.kind == Kind::kOr)) return left;
      return part(1);
    }
    case Kind::kConditional:
      return EvaluateConditional(expression);
    case Kind::kAttribute: {
      ASSIGN_OR_RETURN(const Value value, part(0));
      return MemberOf(value, expression.name, budget_);
    }
    case Kind::kItem: {
      ASSIGN_OR_RETURN(const Value value, part(0));
      ASSIGN_OR_RETURN(const Value key, part(1));
      return ItemOf(value, key, budget_);
    }
    case Kind::kSlice:
      return EvaluateSlice(expression);
    case Kind::kCall:
      return EvaluateCall(expression);
    case Kind::kFilter: {
      ASSIGN_OR_RETURN(const Value value, part(0));
      ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(expression));
      return expression.filter(value, arguments, budget_);
    }
    case Kind::kTest: {
      ASSIGN_OR_RETURN(const Value value, part(0));
      ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(expression));
      ASSIGN_OR_RETURN(const bool holds, expression.test(value, arguments, budget_));
      return Value(holds);
    }
  }
  return Value();
}

absl::StatusOr<List> Rendering::EvaluateAll(const Expression& expression, size_t from) {
  List values;
  for (size_t i = from; i < expression.parts.size(); ++i) {
    ASSIGN_OR_RETURN(values.emplace_back(), Evaluate(*expression.parts[i]));
  }
  return values;
}

Rendering::Evaluated Rendering::EvaluateName(const Expression& expression) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->find(expression.name);
    if (found != scope->end()) return found->second;
  }
  return Value::MakeUndefined(Cat("'", expression.name, "' is undefined"));
}

Rendering::Evaluated Rendering::EvaluateDict(const Expression& expression) {
  Dict entries;
  for (size_t i = 0; i + 1 < expression.parts.size(); i += 2) {
    ASSIGN_OR_RETURN(Value key, Evaluate(*expression.parts[i]));
    ASSIGN_OR_RETURN(Value value, Evaluate(*expression.parts[i + 1]));
    Put(entries, std::move(key), std::move(value), budget_);
  }
  return MakeDict(std::move(entries));
}

Rendering::Evaluated Rendering::EvaluateConcat(const Expression& expression) {
  std::string text;
  for (const ExpressionPtr& part : expression.parts) {
    ASSIGN_OR_RETURN(const Value value, Evaluate(*part));
    text += Str(value, budget_);
  }
  return Value::Of(std::move(text));
}

absl::StatusOr<bool> Rendering::Compare(std::string_view spelled, const Value& left, const Value& right) {
  if (spelled == "==") return Equal(left, right, budget_);
  if (spelled == "!=") return !Equal(left, right, budget_);
  if (spelled == "in") return Contains(right, left, budget_);
  if (spelled == "not in") {
    ASSIGN_OR_RETURN(const bool in, Contains(right, left, budget_));
    return !in;
  }
  if (spelled == "<") return Less(left, right, budget_);
  if (spelled == ">") return Less(right, left, budget_);
  if (left.is_number() && right.is_number())  // NaN is neither less nor more
    return spelled == "<=" ? left.number() <= right.number() : left.number() >= right.number();
  ASSIGN_OR_RETURN(const bool beyond,
                   spelled == "<=" ? Less(right, left, budget_) : Less(left, right, budget_));
  return !beyond;
}

// a < b < c: each with the next, as long as that holds.
Rendering::Evaluated Rendering::EvaluateComparison(const Expression& expression) {
  ASSIGN_OR_RETURN(Value left, Evaluate(*expression.parts[0]));
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    ASSIGN_OR_RETURN(Value right, Evaluate(*expression.parts[i + 1]));
    ASSIGN_OR_RETURN(const bool holds, Compare(expression.operators[i], left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Rendering::Evaluated Rendering::EvaluateConditional(const Expression& expression) {
  ASSIGN_OR_RETURN(const Value holds, Evaluate(*expression.parts[1]));
  if (Truth(holds)) return Evaluate(*expression.parts[0]);
  if (expression.parts[2]) return Evaluate(*expression.parts[2]);
  return Value::MakeUndefined("the inline if-expression evaluated to false and no else section was defined.");
}

Rendering::Evaluated Rendering::EvaluateSlice(const Expression& expression) {
  ASSIGN_OR_RETURN(const Value value, Evaluate(*expression.parts[0]));
  std::array<Value, 3> bounds;
  for (size_t i = 0; i < bounds.size(); ++i) {
    if (expression.parts[i + 1] == nullptr) continue;
    ASSIGN_OR_RETURN(bounds[i], Evaluate(*expression.parts[i + 1]));
  }
  return SliceOf(value, bounds, budget_);
}

// ----------------------------------------------------------------------------------------------- calls

absl::StatusOr<Arguments> Rendering::EvaluateArguments(const Expression& expression) {
  Arguments arguments;
  ASSIGN_OR_RETURN(arguments.positional, EvaluateAll(expression, 1));
  for (const auto& [name, part] : expression.named) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*part));
    arguments.named.emplace_back(name, std::move(value));
  }
  return arguments;
}

Rendering::Evaluated Rendering::EvaluateCall(const Expression& expression) {
  const Expression& callee = *expression.parts[0];
  if (callee.kind == Kind::kAttribute) {
    ASSIGN_OR_RETURN(const Value value, Evaluate(*callee.parts[0]));
    ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(expression));
    line_ = expression.line;
    if (HasMethod(value, callee.name)) return CallMethod(value, callee.name, arguments, budget_);
    ASSIGN_OR_RETURN(const Value member, MemberOf(value, callee.name, budget_));
    return Call(member, arguments);
  }
  ASSIGN_OR_RETURN(const Value value, Evaluate(callee));
  ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(expression));
  line_ = expression.line;
  return Call(value, arguments);
}

Rendering::Evaluated Rendering::Call(const Value& callee, const Arguments& arguments) {
  if (callee.undefined()) return Invalid(callee.As<Undefined>()->message());
  const Function* function = callee.As<Function>();
  if (function == nullptr) return Invalid("a ", TypeOf(callee), " cannot be called");
  return function->macro ? CallMacro(*function->macro, arguments) : CallFunction(function->name, arguments);
}

// It sees the template's variables and its own parameters, and is worth what it prints.
Rendering::Evaluated Rendering::CallMacro(const Macro& macro, const Arguments& arguments) {
  const auto& parameters = macro.parameters;
  if (arguments.positional.size() > parameters.size())
    return Invalid("macro '", macro.name, "' takes at most ", parameters.size(), " arguments");
  std::vector<Variables> hidden(std::make_move_iterator(scopes_.begin() + 1),
                                std::make_move_iterator(scopes_.end()));
  scopes_.resize(1);
  const absl::Cleanup leave = [&] {
    scopes_.insert(scopes_.end(), std::make_move_iterator(hidden.begin()),
                   std::make_move_iterator(hidden.end()));
  };
  Variables variables;
  for (size_t i = 0; i < arguments.positional.size(); ++i)
    variables.insert_or_assign(parameters[i].first, arguments.positional[i]);
  for (const auto& [name, value] : arguments.named) {
    if (std::ranges::find(parameters, name, [](const auto& one) { return one.first; }) == parameters.end())
      return Invalid("macro '", macro.name, "' has no argument '", name, "'");
    if (!variables.emplace(name, value).second)
      return Invalid("macro '", macro.name, "' is given '", name, "' twice");
  }
  for (const auto& [name, fallback] : parameters) {
    if (variables.contains(name)) continue;
    variables[name] = Value::MakeUndefined(Cat("parameter '", name, "' was not provided"));
    if (fallback == nullptr) continue;
    ASSIGN_OR_RETURN(variables[name], Evaluate(*fallback));
  }
  ASSIGN_OR_RETURN(std::string printed, Printed(macro.body, std::move(variables)));
  return Value::Of(std::move(printed));
}

Rendering::Evaluated Rendering::CallFunction(std::string_view name, const Arguments& arguments) {
  if (name == "range") return Range(arguments);
  if (name == "raise_exception") return Raise(arguments);
  if (name == "strftime_now") return Now(arguments);
  if (name != "dict" && name != "namespace") return Invalid("the method '", name, "' stands alone");
  if (!arguments.positional.empty()) return Invalid(name, "() of what has no name is not supported");
  auto made = std::make_shared<Namespace>();
  Dict entries;
  for (const auto& [key, value] : arguments.named) {
    if (!MayBeHeld(value)) return Invalid("a ", TypeOf(value), " cannot be part of a ", name);
    made->attributes.insert_or_assign(key, value);
    entries.emplace_back(Value::Of(key), value);
  }
  if (name == "dict") return MakeDict(std::move(entries));
  return Value(std::move(made));
}

Rendering::Evaluated Rendering::Range(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "range", {"start", "stop", "step"}, 1));
  int64_t begin = 0, end = 0, step = 1;
  ASSIGN_OR_RETURN(end, IntegerOf(bound[0], "range"));
  if (!bound[1].undefined()) {
    begin = end;
    ASSIGN_OR_RETURN(end, IntegerOf(bound[1], "range"));
  }
  if (!bound[2].undefined()) {
    ASSIGN_OR_RETURN(step, IntegerOf(bound[2], "range"));
  }
  if (step == 0) return Invalid("range: a step is 0");
  List numbers;
  // As Jinja's sandbox has it: no more than this.
  constexpr int64_t kLongest = 100'000;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (std::ssize(numbers) == kLongest) return Invalid("range: there are more than ", kLongest, " numbers");
    if (!budget_.Spend(1)) break;
    numbers.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return MakeList(std::move(numbers));
}

Rendering::Evaluated Rendering::Raise(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "raise_exception", {"message"}, 1));
  raised_ = true;
  return Invalid(Str(bound[0], budget_));
}

Rendering::Evaluated Rendering::Now(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const auto bound, Bind(arguments, "strftime_now", {"format"}, 1));
  ASSIGN_OR_RETURN(const std::string* format, TextOf(bound[0], "strftime_now"));
  if (format->size() > 200)
    return Invalid("strftime_now: the format has ", format->size(), " bytes, at most 200");
  const std::tm now = now_();
  char text[8192];
  const size_t bytes = std::strftime(text, sizeof text, format->c_str(), &now);
  return Value::Of(ReplaceInvalidUtf8(std::string_view(text, bytes)));
}

}  // namespace heed::jinja
