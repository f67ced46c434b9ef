#include "engine/templates/expression_parser.h"

#include <algorithm>
#include <array>

#include "absl/cleanup/cleanup.h"
#include "engine/base/status.h"

namespace heed::jinja {
namespace {

using Kind = Expression::Kind;
using Type = Token::Type;

constexpr int kDeepest = 100;

std::string Shown(const Token& token) {
  switch (token.type) {
    case Type::kText:
      return "text";
    case Type::kPrintBegin:
      return "'{{'";
    case Type::kPrintEnd:
      return "'}}'";
    case Type::kBlockBegin:
      return "'{%'";
    case Type::kBlockEnd:
      return "'%}'";
    case Type::kEnd:
      return "the end";
    case Type::kString:
      return "a string";
    default:
      return Cat("'", token.text.substr(0, 40), "'");
  }
}

}  // namespace

// -------------------------------------------------------------------------------------------- tokens

Token ExpressionParser::Take() {
  const Token& taken = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return taken;
}

bool ExpressionParser::TakeOperator(std::string_view spelled) {
  return Now().IsOperator(spelled) ? (Take(), true) : false;
}
bool ExpressionParser::TakeName(std::string_view spelled) {
  return Now().IsName(spelled) ? (Take(), true) : false;
}

absl::Status ExpressionParser::Expect(Type type, std::string_view spelled) {
  if (Now().type == type && (spelled.empty() || Now().text == spelled)) return Take(), absl::OkStatus();
  const std::string wanted = spelled.empty() ? Shown({.type = type}) : Cat("'", spelled, "'");
  return Misplaced(wanted);
}

absl::StatusOr<std::string> ExpressionParser::ExpectName() {
  static constexpr std::array<std::string_view, 6> kConstants = {"true", "false", "none",
                                                                 "True", "False", "None"};
  if (Now().type != Type::kName || std::ranges::find(kConstants, Now().text) != kConstants.end())
    return Misplaced("a name");
  return Take().text;
}

absl::Status ExpressionParser::Misplaced(std::string_view wanted) const {
  return Wrong(Cat(Shown(Now()), " stands where ", wanted, " must be"));
}

absl::Status ExpressionParser::Wrong(std::string_view what) const {
  return Invalid("line ", Now().line, ": ", what);
}

ExpressionParser::Parsed ExpressionParser::Made(Expression expression) const {
  for (const ExpressionPtr& part : expression.parts)
    if (part) expression.depth = std::max(expression.depth, part->depth + 1);
  for (const auto& [name, part] : expression.named)
    expression.depth = std::max(expression.depth, part->depth + 1);
  if (expression.depth > kDeepest)
    return Wrong(Cat("an expression is nested deeper than ", kDeepest, " levels"));
  return std::make_unique<const Expression>(std::move(expression));
}

// ----------------------------------------------------------------------------------------- operators

ExpressionParser::Parsed ExpressionParser::ParseTuple(bool conditional) {
  Expression tuple = At(Kind::kTuple);
  ASSIGN_OR_RETURN(ExpressionPtr first, ParseExpression(conditional));
  if (!Now().IsOperator(",")) return first;
  tuple.parts.push_back(std::move(first));
  while (TakeOperator(",")) {
    if (Now().type == Type::kPrintEnd || Now().type == Type::kBlockEnd || Now().IsOperator(")")) break;
    ASSIGN_OR_RETURN(tuple.parts.emplace_back(), ParseExpression(conditional));
  }
  return Made(std::move(tuple));
}

ExpressionParser::Parsed ExpressionParser::ParseExpression(bool conditional) {
  if (++nested_ > kDeepest) return Wrong(Cat("an expression is nested deeper than ", kDeepest, " levels"));
  const absl::Cleanup leave = [&] { --nested_; };
  ASSIGN_OR_RETURN(ExpressionPtr value, ParseOr());
  while (conditional && Now().IsName("if")) {
    Expression choice = At(Kind::kConditional);
    Take();
    choice.parts.push_back(std::move(value));
    ASSIGN_OR_RETURN(choice.parts.emplace_back(), ParseOr());
    choice.parts.push_back(nullptr);
    if (TakeName("else")) {
      ASSIGN_OR_RETURN(choice.parts.back(), ParseExpression());
    }
    ASSIGN_OR_RETURN(value, Made(std::move(choice)));
  }
  return value;
}

ExpressionParser::Parsed ExpressionParser::ParseOr() {
  ASSIGN_OR_RETURN(ExpressionPtr value, ParseAnd());
  while (Now().IsName("or")) {
    Expression either = At(Kind::kOr);
    Take();
    either.parts.push_back(std::move(value));
    ASSIGN_OR_RETURN(either.parts.emplace_back(), ParseAnd());
    ASSIGN_OR_RETURN(value, Made(std::move(either)));
  }
  return value;
}

ExpressionParser::Parsed ExpressionParser::ParseAnd() {
  ASSIGN_OR_RETURN(ExpressionPtr value, ParseNot());
  while (Now().IsName("and")) {
    Expression both = At(Kind::kAnd);
    Take();
    both.parts.push_back(std::move(value));
    ASSIGN_OR_RETURN(both.parts.emplace_back(), ParseNot());
    ASSIGN_OR_RETURN(value, Made(std::move(both)));
  }
  return value;
}

ExpressionParser::Parsed ExpressionParser::ParseNot() {
  if (!Now().IsName("not")) return ParseComparison();
  if (++nested_ > kDeepest) return Wrong(Cat("an expression is nested deeper than ", kDeepest, " levels"));
  const absl::Cleanup leave = [&] { --nested_; };
  Expression negation = At(Kind::kNot);
  Take();
  ASSIGN_OR_RETURN(negation.parts.emplace_back(), ParseNot());
  return Made(std::move(negation));
}

absl::StatusOr<std::string> ExpressionParser::ComparisonOperator() {
  static constexpr std::array<std::string_view, 6> kOperators = {"==", "!=", "<", "<=", ">", ">="};
  if (Now().type == Type::kOperator && std::ranges::find(kOperators, Now().text) != kOperators.end())
    return Take().text;
  if (TakeName("in")) return "in";
  if (!Now().IsName("not") || !tokens_[at_ + 1].IsName("in")) return "";
  Take();
  Take();
  return "not in";
}

ExpressionParser::Parsed ExpressionParser::ParseComparison() {
  Expression comparison = At(Kind::kComparison);
  ASSIGN_OR_RETURN(comparison.parts.emplace_back(), ParseSum());
  while (true) {
    ASSIGN_OR_RETURN(std::string spelled, ComparisonOperator());
    if (spelled.empty()) break;
    comparison.operators.push_back(std::move(spelled));
    ASSIGN_OR_RETURN(comparison.parts.emplace_back(), ParseSum());
  }
  if (comparison.operators.empty()) return std::move(comparison.parts[0]);
  return Made(std::move(comparison));
}

ExpressionParser::Parsed ExpressionParser::ParseOperations(std::initializer_list<std::string_view> operators,
                                                           Rule part) {
  ASSIGN_OR_RETURN(ExpressionPtr value, (this->*part)());
  while (Now().type == Type::kOperator && std::ranges::find(operators, Now().text) != operators.end()) {
    Expression operation = At(Kind::kOperation);
    operation.name = Take().text;
    operation.parts.push_back(std::move(value));
    ASSIGN_OR_RETURN(operation.parts.emplace_back(), (this->*part)());
    ASSIGN_OR_RETURN(value, Made(std::move(operation)));
  }
  return value;
}

ExpressionParser::Parsed ExpressionParser::ParseSum() {
  return ParseOperations({"+", "-"}, &ExpressionParser::ParseConcat);
}

ExpressionParser::Parsed ExpressionParser::ParseConcat() {
  Expression joined = At(Kind::kConcat);
  ASSIGN_OR_RETURN(joined.parts.emplace_back(), ParseProduct());
  while (TakeOperator("~")) {
    ASSIGN_OR_RETURN(joined.parts.emplace_back(), ParseProduct());
  }
  if (joined.parts.size() == 1) return std::move(joined.parts[0]);
  return Made(std::move(joined));
}

ExpressionParser::Parsed ExpressionParser::ParseProduct() {
  return ParseOperations({"*", "/", "//", "%"}, &ExpressionParser::ParsePower);
}

ExpressionParser::Parsed ExpressionParser::ParsePower() {
  return ParseOperations({"**"}, &ExpressionParser::ParseUnary);
}

ExpressionParser::Parsed ExpressionParser::ParseSigned(bool with_filters) {
  if (++nested_ > kDeepest) return Wrong(Cat("an expression is nested deeper than ", kDeepest, " levels"));
  const absl::Cleanup leave = [&] { --nested_; };
  ExpressionPtr value;
  if (Now().IsOperator("-") || Now().IsOperator("+")) {
    Expression sign = At(Now().text == "-" ? Kind::kNegative : Kind::kPositive);
    Take();
    ASSIGN_OR_RETURN(sign.parts.emplace_back(), ParseSigned(false));
    ASSIGN_OR_RETURN(value, Made(std::move(sign)));
  } else {
    ASSIGN_OR_RETURN(value, ParsePrimary());
  }
  ASSIGN_OR_RETURN(value, ParsePostfix(std::move(value)));
  return with_filters ? ParseFiltersAndTests(std::move(value)) : Parsed(std::move(value));
}

}  // namespace heed::jinja
