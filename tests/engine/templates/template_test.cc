// What a template may not do, and what it is told then.
#include "engine/templates/template.h"

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed::jinja {
namespace {

using testing::HasSubstr;

std::string Refusal(std::string_view source) {
  const auto parsed = Template::Parse(source);
  return parsed.ok() ? "nothing is wrong" : std::string(parsed.status().message());
}

absl::StatusOr<std::string> Rendered(std::string_view source, int64_t units = 1 << 20) {
  const auto parsed = Template::Parse(source);
  return parsed.ok() ? parsed->Render({}, units, [] { return std::tm{}; }) : parsed.status();
}

std::string Failure(std::string_view source) {
  const auto text = Rendered(source);
  return text.ok() ? "nothing is wrong" : std::string(text.status().message());
}

std::string Repeated(std::string_view part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST(Template, RefusesWhatIsNotSupportedByNameAndLine) {
  EXPECT_EQ(Refusal("a\n\n{{ x | center(3) }}"), "line 3: the filter 'center' is not supported");
  EXPECT_EQ(Refusal("{{ x is\n escaped }}"), "line 2: the test 'escaped' is not supported");
  EXPECT_EQ(Refusal("{{ x.encode('utf8') }}"), "line 1: the method 'encode' is not supported");
  EXPECT_EQ(Refusal("{{ x | map('center') }}"), "line 1: the filter 'center' is not supported");
  EXPECT_EQ(Refusal("{{ x | selectattr('a', 'escaped') }}"), "line 1: the test 'escaped' is not supported");
  EXPECT_EQ(Refusal("{% include 'x' %}"), "line 1: the tag 'include' is not supported");
  EXPECT_EQ(Refusal("{% for x in y recursive %}{% endfor %}"), "line 1: a recursive 'for' is not supported");
  EXPECT_EQ(Refusal("{% set a = joiner() %}"), "line 1: 'joiner' is not supported");
  EXPECT_THAT(Refusal("{% for x in y %}{% macro m() %}{% endmacro %}{% endfor %}"),
              HasSubstr("'macro' within"));
}

TEST(Template, RefusesWhatIsNoTemplate) {
  EXPECT_EQ(Refusal("{{ 'a"), "line 1: a string has no end");
  EXPECT_EQ(Refusal("{{ 1 "), "line 1: a tag has no end }}");
  EXPECT_EQ(Refusal("\n{# x"), "line 2: a comment {# has no end #}");
  EXPECT_EQ(Refusal("{% if x %}"), "line 1: 'endif' is missing");
  EXPECT_EQ(Refusal("{% endif %}"), "line 1: there is no tag 'endif' here");
  EXPECT_EQ(Refusal("{{ a b }}"), "line 1: 'b' stands where '}}' must be");
  EXPECT_EQ(Refusal("{{ 99999999999999999999 }}"), "line 1: 99999999999999999999 is beyond 64 bits");
  EXPECT_EQ(Refusal("\xff"), "the template is not UTF-8");
  EXPECT_THAT(Refusal(std::string((1 << 20) + 1, 'x')), HasSubstr("at most 1048576"));
}

TEST(Template, NestsNoDeeperThanTheStackBears) {
  const std::pair<const char*, const char*> pairs[] = {{"(", ")"}, {"[", "]"},    {"not ", ""},
                                                       {"-", ""},  {"{1: ", "}"}, {"x[", "]"}};
  for (const auto& [open, close] : pairs) {
    EXPECT_THAT(Refusal("{{ " + Repeated(open, 100'000) + "1" + Repeated(close, 100'000) + " }}"),
                HasSubstr("nested deeper than 100 levels"))
        << open;
  }
  EXPECT_THAT(Refusal("{{ 1" + Repeated(" + 1", 1000) + " }}"), HasSubstr("nested deeper than 100 levels"));
  EXPECT_THAT(Refusal("{{ x" + Repeated(".a", 1000) + " }}"), HasSubstr("nested deeper than 100 levels"));
  EXPECT_THAT(Refusal("{{ x" + Repeated(" | trim", 1000) + " }}"),
              HasSubstr("nested deeper than 100 levels"));
  EXPECT_THAT(Refusal(Repeated("{% if x %}", 1000)), HasSubstr("nested deeper than 50 levels"));
  EXPECT_THAT(Failure("{% macro m() %}{% if true %}{{ m() }}{% endif %}{% endmacro %}{{ m() }}"),
              HasSubstr("nested deeper than 400 levels"));
  EXPECT_THAT(
      Failure("{% set n = namespace(x=1) %}{% for i in range(100) %}{% set n.x = [n.x] %}{% endfor %}"),
      HasSubstr("nested deeper than 64 levels"));
}

TEST(Template, EndsWhateverItDoes) {
  for (const char* source :
       {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x "
        "}}",
        "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}"
        "{{ n.x | tojson(indent=16) | length }}",
        "{{ 'x' * 999999999 }}", "{{ [1] * 9223372036854775807 }}",
        "{{ 'a' | replace('', 'b' * 90000) * 90000 }}",
        "{% set t = 'x' * 9999 %}{% for i in range(9999) %}{{ t[i] }}{% endfor %}",
        "{% set t = 'x' * 9999 %}{% for i in range(9999) %}{% if t == t ~ '' %}{% endif %}{% endfor %}"}) {
    EXPECT_THAT(Failure(source), HasSubstr("too many steps")) << source;
  }
}

TEST(Template, HoldsNothingThatChangesWithinAnotherValue) {
  EXPECT_THAT(Failure("{% set n = namespace() %}{% set n.n = n %}"),
              HasSubstr("a namespace cannot be part of"));
  EXPECT_THAT(Failure("{% set n = namespace() %}{% set n.n = [n] %}"),
              HasSubstr("a namespace cannot be part of"));
  EXPECT_THAT(Failure("{% for i in [1] %}{{ [loop] }}{% endfor %}"), HasSubstr("a loop cannot be part of"));
}

TEST(Template, TellsTheTimeThatItIsGiven) {
  const auto parsed = Template::Parse("{{ strftime_now('%d %B %Y') }}");
  std::tm day{};
  day.tm_mday = 26;
  day.tm_mon = 6;
  day.tm_year = 124;
  EXPECT_EQ(parsed->Render({}, 1000, [&] { return day; }).value(), "26 July 2024");
  EXPECT_THAT(Failure("{{ strftime_now('" + std::string(201, 'x') + "') }}"), HasSubstr("at most 200"));
}

TEST(Template, TellsTheLineThatFails) {
  EXPECT_EQ(Failure("a\n{{ 'a' +\n 1 }}"), "line 3: '+' of a str object and a int object");
  EXPECT_EQ(Failure("{{ 9223372036854775807 + 1 }}"), "line 1: a whole number is beyond 64 bits");
}

TEST(Template, SaysNoMoreThanFitsAMessage) {
  EXPECT_EQ(Failure("{{ raise_exception('short') }}"), "short");
  EXPECT_EQ(Failure("{{ raise_exception('x' ~ 'é' * 9999) }}"), "x" + Repeated("é", 199) + "...");
  EXPECT_LT(Failure("{{ {}['x' * 9999] + 1 }}").size(), 500u);
}

}  // namespace
}  // namespace heed::jinja
