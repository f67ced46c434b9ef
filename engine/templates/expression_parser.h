// Tokens to expressions, by Jinja's precedence. What is not supported is refused here, by name.
#ifndef HEED_ENGINE_TEMPLATES_EXPRESSION_PARSER_H_
#define HEED_ENGINE_TEMPLATES_EXPRESSION_PARSER_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/templates/lexer.h"
#include "engine/templates/syntax.h"

namespace heed::jinja {

// Reads tokens one after another. Errors begin with "line N: ".
class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  using Parsed = absl::StatusOr<ExpressionPtr>;
  // With `a if b else c`, unless `conditional` is false.
  Parsed ParseExpression(bool conditional = true);
  // `a, b` is a tuple.
  Parsed ParseTuple(bool conditional = true);
  // The filters after a value that stands elsewhere.
  Parsed ParseFilters(ExpressionPtr value);

  const Token& Now() const { return tokens_[at_]; }
  Token Take();  // and goes on; at the end it stays
  bool TakeOperator(std::string_view spelled);
  bool TakeName(std::string_view spelled);
  absl::Status Expect(Token::Type type, std::string_view spelled = "");
  absl::StatusOr<std::string> ExpectName();  // of a variable, which no constant's name is
  absl::Status Wrong(std::string_view what) const;
  // The next token "stands where WANTED must be".
  absl::Status Misplaced(std::string_view wanted) const;

 private:
  using Rule = Parsed (ExpressionParser::*)();
  Parsed ParseOr();
  Parsed ParseAnd();
  Parsed ParseNot();
  Parsed ParseComparison();
  Parsed ParseSum();
  Parsed ParseConcat();
  Parsed ParseProduct();
  Parsed ParsePower();
  Parsed ParseUnary() { return ParseSigned(true); }
  Parsed ParseSigned(bool with_filters);
  Parsed ParsePrimary();
  Parsed ParseNameOrConstant();
  Parsed ParseString();
  Parsed ParseNumber();
  Parsed ParseList();
  Parsed ParseDict();
  Parsed ParseParentheses();
  Parsed ParsePostfix(ExpressionPtr value);
  Parsed ParseMember(ExpressionPtr value);
  Parsed ParseSubscript(ExpressionPtr value);
  Parsed ParseCall(ExpressionPtr callee);
  Parsed ParseFiltersAndTests(ExpressionPtr value);
  Parsed ParseFilter(ExpressionPtr value);
  Parsed ParseTest(ExpressionPtr value);
  absl::StatusOr<std::string> ComparisonOperator();  // empty: none is next
  absl::Status ParseArguments(Expression& call);
  absl::Status CheckNamedFilter(const Expression& filter) const;
  bool NextBeginsTestArgument() const;

  // Whichever of the operators, between two parts that `part` reads.
  Parsed ParseOperations(std::initializer_list<std::string_view> operators, Rule part);
  // Checks how deep the tree has become.
  Parsed Made(Expression expression) const;
  Expression At(Expression::Kind kind) const { return {.kind = kind, .line = Now().line}; }

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int nested_ = 0;  // expressions within one another, of those that are being read
};

}  // namespace heed::jinja

#endif  // HEED_ENGINE_TEMPLATES_EXPRESSION_PARSER_H_
