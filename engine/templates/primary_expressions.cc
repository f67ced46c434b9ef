// The parts that operators stand between: constants, names, brackets, and what follows a value.
#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/numbers.h"
#include "engine/base/status.h"
#include "engine/templates/expression_parser.h"
#include "engine/templates/methods.h"

namespace heed::jinja {
namespace {

using Kind = Expression::Kind;
using Type = Token::Type;

// The names that Jinja gives templates and Heed does not.
bool IsUnsupportedGlobal(std::string_view name) {
  static constexpr std::array<std::string_view, 6> kNames = {"cycler", "joiner",  "lipsum",
                                                             "self",   "varargs", "kwargs"};
  return std::ranges::find(kNames, name) != kNames.end();
}

}  // namespace

ExpressionParser::Parsed ExpressionParser::ParsePrimary() {
  switch (Now().type) {
    case Type::kName:
      return ParseNameOrConstant();
    case Type::kString:
      return ParseString();
    case Type::kInteger:
    case Type::kFloat:
      return ParseNumber();
    default:
      break;
  }
  if (Now().IsOperator("(")) return ParseParentheses();
  if (Now().IsOperator("[")) return ParseList();
  if (Now().IsOperator("{")) return ParseDict();
  return Misplaced("an expression");
}

ExpressionParser::Parsed ExpressionParser::ParseNameOrConstant() {
  Expression read = At(Kind::kConstant);
  const std::string name = Take().text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    read.constant = Value(name == "true" || name == "True");
  } else if (name == "none" || name == "None") {
    read.constant = Value(None{});
  } else if (IsUnsupportedGlobal(name)) {
    return Wrong(Cat("'", name, "' is not supported"));
  } else {
    read.kind = Kind::kName;
    read.name = name;
  }
  return Made(std::move(read));
}

ExpressionParser::Parsed ExpressionParser::ParseString() {
  Expression read = At(Kind::kConstant);
  std::string text;
  while (Now().type == Type::kString) text += Take().text;
  read.constant = Value::Of(std::move(text));
  return Made(std::move(read));
}

ExpressionParser::Parsed ExpressionParser::ParseNumber() {
  Expression read = At(Kind::kConstant);
  const Token token = Now();
  int64_t integer = 0;
  double number = 0;
  if (token.type == Type::kInteger) {
    if (!absl::SimpleAtoi(token.text, &integer)) return Wrong(Cat(token.text, " is beyond 64 bits"));
    read.constant = Value(integer);
  } else {
    if (!absl::SimpleAtod(token.text, &number)) return Wrong(Cat(token.text, " is no number"));
    read.constant = Value(number);
  }
  Take();
  return Made(std::move(read));
}

ExpressionParser::Parsed ExpressionParser::ParseParentheses() {
  Expression empty = At(Kind::kTuple);
  Take();
  if (TakeOperator(")")) return Made(std::move(empty));
  ASSIGN_OR_RETURN(ExpressionPtr value, ParseTuple());
  RETURN_IF_ERROR(Expect(Type::kOperator, ")"));
  return value;
}

ExpressionParser::Parsed ExpressionParser::ParseList() {
  Expression list = At(Kind::kList);
  Take();
  while (!TakeOperator("]")) {
    if (!list.parts.empty()) RETURN_IF_ERROR(Expect(Type::kOperator, ","));
    if (TakeOperator("]")) break;
    ASSIGN_OR_RETURN(list.parts.emplace_back(), ParseExpression());
  }
  return Made(std::move(list));
}

ExpressionParser::Parsed ExpressionParser::ParseDict() {
  Expression dict = At(Kind::kDict);
  Take();
  while (!TakeOperator("}")) {
    if (!dict.parts.empty()) RETURN_IF_ERROR(Expect(Type::kOperator, ","));
    if (TakeOperator("}")) break;
    ASSIGN_OR_RETURN(dict.parts.emplace_back(), ParseExpression());
    RETURN_IF_ERROR(Expect(Type::kOperator, ":"));
    ASSIGN_OR_RETURN(dict.parts.emplace_back(), ParseExpression());
  }
  return Made(std::move(dict));
}

// --------------------------------------------------------------------------------- what follows a value

ExpressionParser::Parsed ExpressionParser::ParsePostfix(ExpressionPtr value) {
  while (true) {
    if (Now().IsOperator(".")) {
      ASSIGN_OR_RETURN(value, ParseMember(std::move(value)));
    } else if (Now().IsOperator("[")) {
      ASSIGN_OR_RETURN(value, ParseSubscript(std::move(value)));
    } else if (Now().IsOperator("(")) {
      ASSIGN_OR_RETURN(value, ParseCall(std::move(value)));
    } else {
      return value;
    }
  }
}

ExpressionParser::Parsed ExpressionParser::ParseMember(ExpressionPtr value) {
  Expression member = At(Kind::kAttribute);
  Take();
  member.parts.push_back(std::move(value));
  if (Now().type == Type::kInteger) {
    member.kind = Kind::kItem;
    ASSIGN_OR_RETURN(member.parts.emplace_back(), ParseNumber());
    return Made(std::move(member));
  }
  if (Now().type != Type::kName) return Misplaced("a name");
  member.name = Take().text;
  if (Now().IsOperator("(") && MethodName(member.name).empty())
    return Wrong(Cat("the method '", member.name, "' is not supported"));
  return Made(std::move(member));
}

ExpressionParser::Parsed ExpressionParser::ParseSubscript(ExpressionPtr value) {
  Expression item = At(Kind::kItem);
  Take();
  item.parts.push_back(std::move(value));
  while (!Now().IsOperator("]")) {
    const bool colon = TakeOperator(":");
    if (colon) {
      item.kind = Kind::kSlice;
      if (item.parts.size() < 2) item.parts.push_back(nullptr);
      if (item.parts.size() > 3) return Wrong("a slice has more than three parts");
      item.parts.push_back(nullptr);
    } else {
      ASSIGN_OR_RETURN(ExpressionPtr part, ParseExpression());
      const bool first = item.parts.size() == 1;
      if (!first && (item.kind != Kind::kSlice || item.parts.back() != nullptr))
        return Wrong("a subscript with several values is not supported");
      if (first) {
        item.parts.push_back(std::move(part));
      } else {
        item.parts.back() = std::move(part);
      }
    }
  }
  Take();
  if (item.parts.size() < 2) return Wrong("a subscript is empty");
  if (item.kind == Kind::kSlice) item.parts.resize(4);
  return Made(std::move(item));
}

absl::Status ExpressionParser::ParseArguments(Expression& call) {
  RETURN_IF_ERROR(Expect(Type::kOperator, "("));
  bool first = true;
  while (!TakeOperator(")")) {
    if (!std::exchange(first, false)) RETURN_IF_ERROR(Expect(Type::kOperator, ","));
    if (TakeOperator(")")) break;
    if (Now().IsOperator("*") || Now().IsOperator("**")) return Wrong("arguments of '*' are not supported");
    if (Now().type == Type::kName && tokens_[at_ + 1].IsOperator("=")) {
      const std::string name = Take().text;
      Take();
      ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      call.named.emplace_back(name, std::move(value));
    } else {
      if (!call.named.empty()) return Wrong("an argument without a name follows one that has one");
      ASSIGN_OR_RETURN(call.parts.emplace_back(), ParseExpression());
    }
  }
  return absl::OkStatus();
}

ExpressionParser::Parsed ExpressionParser::ParseCall(ExpressionPtr callee) {
  Expression call = At(Kind::kCall);
  call.parts.push_back(std::move(callee));
  RETURN_IF_ERROR(ParseArguments(call));
  return Made(std::move(call));
}

ExpressionParser::Parsed ExpressionParser::ParseFiltersAndTests(ExpressionPtr value) {
  while (true) {
    if (Now().IsOperator("|")) {
      ASSIGN_OR_RETURN(value, ParseFilter(std::move(value)));
    } else if (Now().IsName("is")) {
      ASSIGN_OR_RETURN(value, ParseTest(std::move(value)));
    } else if (Now().IsOperator("(")) {
      ASSIGN_OR_RETURN(value, ParseCall(std::move(value)));
    } else {
      return value;
    }
  }
}

ExpressionParser::Parsed ExpressionParser::ParseFilters(ExpressionPtr value) {
  while (Now().IsOperator("|")) {
    ASSIGN_OR_RETURN(value, ParseFilter(std::move(value)));
  }
  return value;
}

ExpressionParser::Parsed ExpressionParser::ParseFilter(ExpressionPtr value) {
  Expression filtered = At(Kind::kFilter);
  Take();
  ASSIGN_OR_RETURN(filtered.name, ExpectName());
  filtered.filter = FindFilter(filtered.name);
  if (filtered.filter == nullptr) return Wrong(Cat("the filter '", filtered.name, "' is not supported"));
  filtered.parts.push_back(std::move(value));
  if (Now().IsOperator("(")) RETURN_IF_ERROR(ParseArguments(filtered));
  RETURN_IF_ERROR(CheckNamedFilter(filtered));
  return Made(std::move(filtered));
}

// `map('upper')`, `select('odd')`: what these name must be there, too.
absl::Status ExpressionParser::CheckNamedFilter(const Expression& filter) const {
  size_t place = 0;
  const bool of_test = TakesTest(filter.name, &place);
  if ((!of_test && !TakesFilter(filter.name)) || filter.parts.size() <= 1 + place) return absl::OkStatus();
  const std::string* name = filter.parts[1 + place]->constant.text();
  if (name == nullptr) return absl::OkStatus();
  if (of_test && FindTest(*name) == nullptr) return Wrong(Cat("the test '", *name, "' is not supported"));
  if (!of_test && FindFilter(*name) == nullptr)
    return Wrong(Cat("the filter '", *name, "' is not supported"));
  return absl::OkStatus();
}

bool ExpressionParser::NextBeginsTestArgument() const {
  static constexpr std::array<std::string_view, 8> kNot = {"else", "or", "and", "if",
                                                           "is",   "in", "not", "recursive"};
  const Token& next = Now();
  if (next.type == Type::kName) return std::ranges::find(kNot, next.text) == kNot.end();
  return next.type == Type::kString || next.type == Type::kInteger || next.type == Type::kFloat ||
         next.IsOperator("[") || next.IsOperator("{");
}

ExpressionParser::Parsed ExpressionParser::ParseTest(ExpressionPtr value) {
  Expression test = At(Kind::kTest);
  Take();
  const bool negated = TakeName("not");
  if (Now().type != Type::kName) return Misplaced("a test");
  test.name = Take().text;
  test.test = FindTest(test.name);
  if (test.test == nullptr) return Wrong(Cat("the test '", test.name, "' is not supported"));
  test.parts.push_back(std::move(value));
  if (Now().IsOperator("(")) {
    RETURN_IF_ERROR(ParseArguments(test));
  } else if (NextBeginsTestArgument()) {
    ASSIGN_OR_RETURN(ExpressionPtr argument, ParsePrimary());
    ASSIGN_OR_RETURN(test.parts.emplace_back(), ParsePostfix(std::move(argument)));
  }
  ASSIGN_OR_RETURN(ExpressionPtr made, Made(std::move(test)));
  if (!negated) return made;
  Expression negation = At(Kind::kNot);
  negation.parts.push_back(std::move(made));
  return Made(std::move(negation));
}

}  // namespace heed::jinja
