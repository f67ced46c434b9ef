#include "engine/templates/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "engine/base/status.h"
#include "engine/templates/expression_parser.h"
#include "engine/templates/lexer.h"

namespace heed::jinja {
namespace {

using Kind = Statement::Kind;
using Type = Token::Type;
using Ends = std::initializer_list<std::string_view>;

constexpr int kDeepest = 50;

bool IsUnsupportedTag(std::string_view name) {
  static constexpr std::array<std::string_view, 11> kTags = {"filter",     "extends", "block", "include",
                                                             "import",     "from",    "call",  "do",
                                                             "autoescape", "trans",   "debug"};
  return std::ranges::find(kTags, name) != kTags.end();
}

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : in_(std::move(tokens)) {}

  absl::StatusOr<Body> All() {
    ASSIGN_OR_RETURN(Body body, ParseBody({}));
    if (in_.Now().type != Type::kEnd) return in_.Wrong(Cat("'", in_.Now().text, "' ends nothing"));
    return body;
  }

 private:
  // Up to the tag, one of `ends`, whose name is then the next token.
  absl::StatusOr<Body> ParseBody(Ends ends) {
    if (++nested_ > kDeepest) return in_.Wrong(Cat("blocks are nested deeper than ", kDeepest, " levels"));
    const absl::Cleanup leave = [&] { --nested_; };
    Body body;
    while (in_.Now().type != Type::kEnd) {
      const int line = in_.Now().line;
      if (in_.Now().type == Type::kText) {
        body.push_back({.kind = Kind::kText, .line = line, .text = in_.Take().text});
      } else if (in_.Now().type == Type::kPrintBegin) {
        in_.Take();
        Statement print{.kind = Kind::kPrint, .line = line};
        ASSIGN_OR_RETURN(print.expression, in_.ParseTuple());
        RETURN_IF_ERROR(in_.Expect(Type::kPrintEnd));
        body.push_back(std::move(print));
      } else {
        RETURN_IF_ERROR(in_.Expect(Type::kBlockBegin));
        if (std::ranges::find(ends, in_.Now().text) != ends.end()) return body;
        ASSIGN_OR_RETURN(body.emplace_back(), ParseTag());
      }
    }
    if (ends.size() > 0) return in_.Wrong(Cat("'", *(ends.end() - 1), "' is missing"));
    return body;
  }

  // After a body: the tag that ended it, whole.
  absl::Status TakeEnd(std::string_view name) {
    RETURN_IF_ERROR(in_.Expect(Type::kName, name));
    return in_.Expect(Type::kBlockEnd);
  }

  absl::StatusOr<Body> BodyUpTo(std::string_view end) {
    RETURN_IF_ERROR(in_.Expect(Type::kBlockEnd));
    ASSIGN_OR_RETURN(Body body, ParseBody({end}));
    RETURN_IF_ERROR(TakeEnd(end));
    return body;
  }

  absl::StatusOr<Statement> ParseTag() {
    if (in_.Now().type != Type::kName) return in_.Wrong("a tag has no name");
    const int line = in_.Now().line;
    const std::string name = in_.Take().text;
    ASSIGN_OR_RETURN(Statement statement, ParseTag(name));
    statement.line = line;
    return statement;
  }

  absl::StatusOr<Statement> ParseTag(const std::string& name) {
    if (name == "if") return ParseIf();
    if (name == "for") return ParseFor();
    if (name == "set") return ParseSet();
    if (name == "macro") return ParseMacro();
    if (name == "with") return ParseWith();
    if (name == "generation") return ParseGeneration();
    if (name == "break" || name == "continue")
      return ParseJump(name == "break" ? Kind::kBreak : Kind::kContinue);
    if (IsUnsupportedTag(name)) return in_.Wrong(Cat("the tag '", name, "' is not supported"));
    return in_.Wrong(Cat("there is no tag '", name, "' here"));
  }

  absl::StatusOr<Statement> ParseIf() {
    Statement statement{.kind = Kind::kIf};
    while (true) {
      ASSIGN_OR_RETURN(ExpressionPtr condition, in_.ParseTuple());
      RETURN_IF_ERROR(in_.Expect(Type::kBlockEnd));
      ASSIGN_OR_RETURN(Body body, ParseBody({"elif", "else", "endif"}));
      statement.branches.emplace_back(std::move(condition), std::move(body));
      if (!in_.TakeName("elif")) break;
    }
    if (in_.TakeName("else")) {
      ASSIGN_OR_RETURN(statement.otherwise, BodyUpTo("endif"));
      return statement;
    }
    RETURN_IF_ERROR(TakeEnd("endif"));
    return statement;
  }

  // `a`, or `a, b`, which takes items apart.
  absl::Status ParseTargets(Statement& statement) {
    const bool parentheses = in_.TakeOperator("(");
    do {
      ASSIGN_OR_RETURN(statement.targets.emplace_back(), in_.ExpectName());
    } while (in_.TakeOperator(","));
    return parentheses ? in_.Expect(Type::kOperator, ")") : absl::OkStatus();
  }

  absl::StatusOr<Statement> ParseFor() {
    Statement loop{.kind = Kind::kFor};
    RETURN_IF_ERROR(ParseTargets(loop));
    RETURN_IF_ERROR(in_.Expect(Type::kName, "in"));
    ASSIGN_OR_RETURN(loop.expression, in_.ParseTuple(/*conditional=*/false));
    if (in_.TakeName("if")) {
      ASSIGN_OR_RETURN(loop.condition, in_.ParseExpression());
    }
    if (in_.Now().IsName("recursive")) return in_.Wrong("a recursive 'for' is not supported");
    RETURN_IF_ERROR(in_.Expect(Type::kBlockEnd));
    ++loops_;
    ++scopes_;
    auto body = ParseBody({"else", "endfor"});
    --loops_;
    --scopes_;
    ASSIGN_OR_RETURN(loop.body, std::move(body));
    if (in_.TakeName("else")) {
      ASSIGN_OR_RETURN(loop.otherwise, BodyUpTo("endfor"));
      return loop;
    }
    RETURN_IF_ERROR(TakeEnd("endfor"));
    return loop;
  }

  absl::StatusOr<Statement> ParseSet() {
    Statement set{.kind = Kind::kSet};
    RETURN_IF_ERROR(ParseTargets(set));
    if (set.targets.size() == 1 && in_.TakeOperator(".")) {
      set.kind = Kind::kSetMember;
      ASSIGN_OR_RETURN(set.text, in_.ExpectName());
    }
    if (in_.TakeOperator("=")) {
      ASSIGN_OR_RETURN(set.expression, in_.ParseTuple());
      RETURN_IF_ERROR(in_.Expect(Type::kBlockEnd));
      return set;
    }
    if (set.kind == Kind::kSetMember || set.targets.size() > 1)
      return in_.Wrong("a 'set' of this form needs '='");
    set.kind = Kind::kSetBlock;
    ASSIGN_OR_RETURN(set.expression, in_.ParseFilters(Printed()));
    ASSIGN_OR_RETURN(set.body, ClosedBody("endset"));
    return set;
  }

  // What stands for the text of a body in the filters that go over it.
  static ExpressionPtr Printed() {
    return std::make_unique<const Expression>(Expression{.kind = Expression::Kind::kName, .name = ""});
  }

  // A body that no break or continue leaves.
  absl::StatusOr<Body> ClosedBody(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    ++scopes_;
    const absl::Cleanup leave = [&] {
      loops_ = loops;
      --scopes_;
    };
    return BodyUpTo(end);
  }

  absl::StatusOr<Statement> ParseMacro() {
    if (scopes_ > 0)
      return in_.Wrong("a 'macro' within a block that has variables of its own is not supported");
    Macro macro;
    Statement statement{.kind = Kind::kMacro};
    ASSIGN_OR_RETURN(macro.name, in_.ExpectName());
    RETURN_IF_ERROR(in_.Expect(Type::kOperator, "("));
    while (!in_.TakeOperator(")")) {
      if (!macro.parameters.empty()) RETURN_IF_ERROR(in_.Expect(Type::kOperator, ","));
      ASSIGN_OR_RETURN(std::string name, in_.ExpectName());
      ExpressionPtr fallback;
      if (in_.TakeOperator("=")) {
        ASSIGN_OR_RETURN(fallback, in_.ParseExpression());
      }
      macro.parameters.emplace_back(std::move(name), std::move(fallback));
    }
    ASSIGN_OR_RETURN(macro.body, ClosedBody("endmacro"));
    statement.macro = std::make_unique<const Macro>(std::move(macro));
    return statement;
  }

  absl::StatusOr<Statement> ParseWith() {
    Statement with{.kind = Kind::kScope};
    while (in_.Now().type != Type::kBlockEnd) {
      if (!with.targets.empty()) RETURN_IF_ERROR(in_.Expect(Type::kOperator, ","));
      ASSIGN_OR_RETURN(with.targets.emplace_back(), in_.ExpectName());
      RETURN_IF_ERROR(in_.Expect(Type::kOperator, "="));
      ASSIGN_OR_RETURN(with.values.emplace_back(), in_.ParseExpression());
    }
    ++scopes_;
    auto body = BodyUpTo("endwith");
    --scopes_;
    ASSIGN_OR_RETURN(with.body, std::move(body));
    return with;
  }

  // transformers' own tag: what the model is to learn. Here it is a part like any other.
  absl::StatusOr<Statement> ParseGeneration() {
    Statement part{.kind = Kind::kScope};
    ASSIGN_OR_RETURN(part.body, ClosedBody("endgeneration"));
    return part;
  }

  absl::StatusOr<Statement> ParseJump(Kind kind) {
    if (loops_ == 0) return in_.Wrong("a 'break' or 'continue' is outside of a 'for'");
    RETURN_IF_ERROR(in_.Expect(Type::kBlockEnd));
    return Statement{.kind = kind};
  }

  ExpressionParser in_;
  int nested_ = 0;
  int loops_ = 0;   // around what is being read
  int scopes_ = 0;  // blocks with variables of their own, likewise
};

}  // namespace

absl::StatusOr<Body> Parse(std::string_view source) {
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Lex(source));
  return Parser(std::move(tokens)).All();
}

}  // namespace heed::jinja
