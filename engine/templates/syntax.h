// What a template says, as a tree: statements, and the expressions in them. Const once parsed.
#ifndef HEED_ENGINE_TEMPLATES_SYNTAX_H_
#define HEED_ENGINE_TEMPLATES_SYNTAX_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/templates/filters.h"
#include "engine/templates/value.h"
#include "engine/templates/value_tests.h"

namespace heed::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Expression {
  enum class Kind {
    kConstant,     // constant
    kName,         // name
    kList,         // parts
    kTuple,        // parts
    kDict,         // parts: key, value, key, value, ...
    kNot,          // parts[0]
    kNegative,     // parts[0]
    kPositive,     // parts[0]
    kOperation,    // parts[0] name parts[1]: name is + - * / // % **
    kConcat,       // parts, joined as text
    kComparison,   // parts[0] operators[0] parts[1] operators[1] ...
    kAnd,          // parts[0], parts[1]
    kOr,           // parts[0], parts[1]
    kConditional,  // parts[0] if parts[1] else parts[2], which may be nullptr
    kAttribute,    // parts[0].name
    kItem,         // parts[0][parts[1]]
    kSlice,        // parts[0][parts[1]:parts[2]:parts[3]], of which the last three may be nullptr
    kCall,         // parts[0](the other parts, named)
    kFilter,       // parts[0] | name(the other parts, named)
    kTest,         // parts[0] is name(the other parts)
  };
  Kind kind;
  int line = 1;
  int depth = 1;  // of the tree
  std::string name{};
  Value constant{};
  std::vector<std::string> operators{};
  std::vector<ExpressionPtr> parts{};
  std::vector<std::pair<std::string, ExpressionPtr>> named{};
  Filter filter = nullptr;
  ValueTest test = nullptr;
};

struct Statement;
using Body = std::vector<Statement>;

struct Macro {
  std::string name;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // with their defaults, or nullptr
  Body body;
};

struct Statement {
  enum class Kind {
    kText,       // text
    kPrint,      // expression
    kIf,         // branches, else otherwise
    kFor,        // targets in expression, if condition: body; of no item, otherwise
    kSet,        // targets = expression
    kSetMember,  // targets[0].text = expression
    kSetBlock,   // targets[0] = expression, in which the name "" is what body prints
    kScope,      // body, whose own variables (targets[i] = values[i], and those it sets) end with it
    kMacro,      // macro
    kBreak,
    kContinue,
  };
  Kind kind;
  int line = 1;
  std::string text{};
  std::vector<std::string> targets{};
  std::vector<ExpressionPtr> values{};
  ExpressionPtr expression{}, condition{};
  Body body{}, otherwise{};
  std::vector<std::pair<ExpressionPtr, Body>> branches{};
  std::unique_ptr<const Macro> macro{};
};

}  // namespace heed::jinja

#endif  // HEED_ENGINE_TEMPLATES_SYNTAX_H_
