// What statements do.
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "engine/base/status.h"
#include "engine/templates/rendering.h"

namespace heed::jinja {
namespace {

using Kind = Statement::Kind;

// Of bodies, expressions and macros within one another: each takes a part of the stack.
constexpr int kDeepest = 400;

// A message may hold what a template makes, or was given.
std::string Short(absl::string_view message) {
  size_t end = 400;
  if (message.size() <= end) return std::string(message);
  while ((static_cast<unsigned char>(message[end]) & 0xc0) == 0x80) --end;  // no part of a character
  return Cat(message.substr(0, end), "...");
}

}  // namespace

Rendering::Rendering(Variables variables, Budget budget, Clock now)
    : scopes_(1), budget_(budget), now_(std::move(now)) {
  for (const std::string_view name : {"range", "dict", "namespace", "raise_exception", "strftime_now"})
    scopes_[0].emplace(name, Function{.name = name});
  for (auto& [name, value] : variables) scopes_[0].insert_or_assign(name, std::move(value));
}

absl::StatusOr<std::string> Rendering::Run(const Body& body) {
  const auto flow = RunBody(body);
  if (budget_.spent())
    return Invalid("line ", line_, ": the template takes too many steps, or makes too much text");
  if (flow.ok()) return std::move(out_);
  const std::string message = Short(flow.status().message());
  return raised_ ? Invalid(message) : Invalid("line ", line_, ": ", message);
}

absl::Status Rendering::Enter(int line) {
  line_ = line;
  if (depth_ > kDeepest)
    return Invalid("expressions and macros are nested deeper than ", kDeepest, " levels");
  return budget_.Spend(1) ? absl::OkStatus() : Invalid("too many steps");
}

absl::StatusOr<Rendering::Flow> Rendering::RunBody(const Body& body) {
  ++depth_;
  const absl::Cleanup leave = [&] { --depth_; };
  for (const Statement& statement : body) {
    RETURN_IF_ERROR(Enter(statement.line));
    ASSIGN_OR_RETURN(const Flow flow, RunStatement(statement));
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

absl::StatusOr<Rendering::Flow> Rendering::RunStatement(const Statement& statement) {
  switch (statement.kind) {
    case Kind::kText:
      Print(statement.text);
      return Flow::kOn;
    case Kind::kPrint: {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.expression));
      Print(Str(value, budget_));
      return Flow::kOn;
    }
    case Kind::kIf:
      return RunIf(statement);
    case Kind::kFor:
      return RunFor(statement);
    case Kind::kScope:
      return RunScope(statement);
    case Kind::kBreak:
      return Flow::kBreak;
    case Kind::kContinue:
      return Flow::kContinue;
    case Kind::kSet:
      RETURN_IF_ERROR(RunSet(statement));
      return Flow::kOn;
    case Kind::kSetMember:
      RETURN_IF_ERROR(RunSetMember(statement));
      return Flow::kOn;
    case Kind::kSetBlock:
      RETURN_IF_ERROR(RunSetBlock(statement));
      return Flow::kOn;
    case Kind::kMacro:
      scopes_.back().insert_or_assign(statement.macro->name, Value(Function{.macro = statement.macro.get()}));
      return Flow::kOn;
  }
  return Flow::kOn;
}

void Rendering::Print(std::string_view text) {
  if (budget_.Spend(std::ssize(text))) out_ += text;
}

absl::StatusOr<Rendering::Flow> Rendering::RunIf(const Statement& statement) {
  for (const auto& [condition, body] : statement.branches) {
    ASSIGN_OR_RETURN(const Value holds, Evaluate(*condition));
    if (Truth(holds)) return RunBody(body);
  }
  return RunBody(statement.otherwise);
}

absl::StatusOr<Rendering::Flow> Rendering::RunInScope(const Body& body, Variables variables) {
  scopes_.push_back(std::move(variables));
  auto flow = RunBody(body);
  scopes_.pop_back();
  return flow;
}

absl::StatusOr<Rendering::Flow> Rendering::RunScope(const Statement& statement) {
  Variables variables;
  for (size_t i = 0; i < statement.targets.size(); ++i) {
    ASSIGN_OR_RETURN(variables[statement.targets[i]], Evaluate(*statement.values[i]));
  }
  return RunInScope(statement.body, std::move(variables));
}

// Those that meet the loop's condition.
absl::StatusOr<std::shared_ptr<const Sequence>> Rendering::ItemsFor(const Statement& statement) {
  ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.expression));
  ASSIGN_OR_RETURN(auto items, ItemsOf(value, budget_));
  if (statement.condition == nullptr) return items;
  auto kept = std::make_shared<Sequence>();
  for (const Value& item : items->items) {
    Variables variables;
    RETURN_IF_ERROR(Assign(statement.targets, item, variables));
    scopes_.push_back(std::move(variables));
    const auto holds = Evaluate(*statement.condition);
    scopes_.pop_back();
    RETURN_IF_ERROR(holds.status());
    if (Truth(*holds)) kept->items.push_back(item);
  }
  return kept;
}

absl::StatusOr<Rendering::Flow> Rendering::RunFor(const Statement& statement) {
  ASSIGN_OR_RETURN(const auto items, ItemsFor(statement));
  if (items->items.empty()) return RunInScope(statement.otherwise, {});
  const auto loop = std::make_shared<Loop>(Loop{.items = items});
  for (; loop->at < std::ssize(items->items); ++loop->at) {
    if (!budget_.Spend(1)) return Invalid("too many steps");
    Variables variables;  // each time new ones
    variables.emplace("loop", loop);
    RETURN_IF_ERROR(Assign(statement.targets, items->items[loop->at], variables));
    ASSIGN_OR_RETURN(const Flow flow, RunInScope(statement.body, std::move(variables)));
    if (flow == Flow::kBreak) break;
  }
  return Flow::kOn;
}

absl::Status Rendering::Assign(const std::vector<std::string>& targets, const Value& value,
                               Variables& scope) {
  if (targets.size() == 1) return scope.insert_or_assign(targets[0], value), absl::OkStatus();
  ASSIGN_OR_RETURN(const auto items, ItemsOf(value, budget_));
  if (items->items.size() != targets.size())
    return Invalid("there are ", targets.size(), " names for ", items->items.size(), " values");
  for (size_t i = 0; i < targets.size(); ++i) scope.insert_or_assign(targets[i], items->items[i]);
  return absl::OkStatus();
}

absl::Status Rendering::RunSet(const Statement& statement) {
  ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.expression));
  return Assign(statement.targets, value, scopes_.back());
}

absl::Status Rendering::RunSetMember(const Statement& statement) {
  ASSIGN_OR_RETURN(Value value, Evaluate(*statement.expression));
  ASSIGN_OR_RETURN(const Value object,
                   EvaluateName({.kind = Expression::Kind::kName, .name = statement.targets[0]}));
  if (object.names() == nullptr) return Invalid("'", statement.targets[0], "' is no namespace");
  if (!MayBeHeld(value)) return Invalid("a ", TypeOf(value), " cannot be part of a namespace");
  object.names()->attributes.insert_or_assign(statement.text, std::move(value));
  return absl::OkStatus();
}

absl::StatusOr<std::string> Rendering::Printed(const Body& body, Variables variables) {
  std::string before = std::exchange(out_, "");
  const auto flow = RunInScope(body, std::move(variables));
  std::string printed = std::exchange(out_, std::move(before));
  RETURN_IF_ERROR(flow.status());
  return printed;
}

absl::Status Rendering::RunSetBlock(const Statement& statement) {
  ASSIGN_OR_RETURN(std::string printed, Printed(statement.body, {}));
  Variables variables;
  variables.emplace("", Value::Of(std::move(printed)));
  scopes_.push_back(std::move(variables));
  auto value = Evaluate(*statement.expression);
  scopes_.pop_back();
  RETURN_IF_ERROR(value.status());
  return Assign(statement.targets, *value, scopes_.back());
}

}  // namespace heed::jinja
