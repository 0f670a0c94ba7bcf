// Errors and their lines, limits, and cases that the fixtures lack.
#include "jinja/jinja.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace cairn::jinja {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

Result<std::string> render(std::string_view source, const ordered_json& variables = ordered_json::object(),
                           const JinjaLimits& limits = {}) {
  CAIRN_TRY(const JinjaTemplate parsed, JinjaTemplate::parse(source));
  CAIRN_TRY(Rendering made, parsed.render(variables, kNothingOwn, 1768480496, limits));
  return std::move(made.text);
}

std::string rendered(std::string_view source, const ordered_json& variables = ordered_json::object()) {
  const Result<std::string> result = render(source, variables);
  return result.has_value() ? *result : "error: " + result.error().text();
}

Error error_of(std::string_view source, const ordered_json& variables = ordered_json::object(),
               const JinjaLimits& limits = {}) {
  const Result<std::string> result = render(source, variables, limits);
  EXPECT_FALSE(result.has_value()) << source << " renders " << result.value_or("");
  return result.has_value() ? Error{} : result.error();
}

std::string repeated(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

TEST(JinjaErrors, RaiseExceptionIsAnErrorWithItsTextAndLine) {
  const Error error = error_of("a\nb\n{% if true %}\n{{ raise_exception('Roles must {alternate}!') }}{% endif %}");
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_EQ(error.message, "Roles must {alternate}!");
  EXPECT_EQ(error.at, "line 4");
}

TEST(JinjaErrors, SyntaxErrorsNameTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"\n\n{{ 'open }}", "line 3"},
      {"\n{% if x %}\n\n", "line 2"},
      {"{# a\n", "line 1"},
      {"\n{% raw %}\n", "line 2"},
      {"a\n{{ (1, 2 }}", "line 2"},
      {"\n\n\n{% nosuch %}", "line 4"},
      {"{{ 1 | nosuch }}", "line 1"},
      {"\n{{ 1 is nosuch }}", "line 2"},
      {"{% set x = \n\n1 + %}", "line 3"},
      {"{% for x in y %}\n{% endif %}", "line 2"},
      {"{% break %}", "line 1"},
      {"\n{{ a b }}", "line 2"},
      {"\n{% extends 'x' %}", "line 2"},
      {"\n{{ f(a=1, b) }}", "line 2"},
      {"{{ 99999999999999999999999999999999999999999 }}", "line 1"},
  };
  for (const auto& [source, line] : cases) {
    const auto parsed = JinjaTemplate::parse(source);
    ASSERT_FALSE(parsed.has_value()) << source;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument) << source;
    EXPECT_EQ(parsed.error().at, line) << source << ": " << parsed.error().message;
    EXPECT_FALSE(parsed.error().message.empty());
  }
}

TEST(Jinja, AppendsToListsThatTheTemplateWrote) {
  const ordered_json variables = {{"given", {1, 2}}};
  EXPECT_EQ(rendered("{% set l = [1] %}{% for x in given %}{% set _ = l.append(x) %}{% endfor %}{{ l }}{{ l.append(3) "
                     "}}{{ l[3] }}",
                     variables),
            "[1, 1, 2]None3");
  EXPECT_EQ(
      render("{% set ns = namespace(l=[]) %}{% for x in given %}{% set _ = ns.l.append([x]) %}{% endfor %}{{ ns.l }}",
             variables),
      "[[1], [2]]");
  EXPECT_EQ(
      render("{% set l = [1, 2] %}{% for x in l %}{% set _ = l.append(x) %}{% endfor %}{{ l | length }}", variables),
      "4");
  EXPECT_EQ(rendered("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", variables), "[[]]");
  EXPECT_THAT(error_of("{{ given.append(3) }}", variables).message, HasSubstr("unsafe"));
}

TEST(JinjaErrors, FailingOperationsNameTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"\n{{ x.y.z }}", "'x' is undefined"},
      {"\n{{ messages[0].nope.upper() }}", "'dict object' has no attribute 'nope'"},
      {"\n{{ 'a' + 1 }}", "can only concatenate str (not \"int\") to str"},
      {"\n{% set a, b = 1 %}", "cannot unpack non-iterable int object"},
      {"\n{% for x in none %}{% endfor %}", "'NoneType' object is not iterable"},
      {"\n{{ [1].append(2) }}", "access to attribute 'append' of 'list' object is unsafe."},
      {"\n{% if true %}{{ 1 | nosuch }}{% endif %}", "No filter named 'nosuch' found."},
      {"\n{{ {}.update({}) }}", "access to attribute 'update' of 'dict' object is unsafe."},
      {"\n{{ [1] | map('upper') | tojson }}", "Object of type generator is not JSON serializable"},
      {"\n{% set messages.x = 1 %}", "cannot assign attribute on non-namespace object"},
      {"\n{{ 1 // 0 }}", "integer division or modulo by zero"},
      {"\n{{ 9 ** 99 }}", "integer overflow"},
      {"{% macro m(a) %}\n{{ a.b }}{% endmacro %}{{ m() }}", "parameter 'a' was not provided"},
  };
  const ordered_json variables = {{"messages", ordered_json::array({ordered_json{{"role", "user"}}})}};
  for (const auto& [source, message] : cases) {
    const Error error = error_of(source, variables);
    EXPECT_EQ(error.code, Code::kInvalidArgument) << source;
    EXPECT_THAT(error.message, HasSubstr(message)) << source;
    EXPECT_EQ(error.at, "line 2") << source;
  }
}

TEST(JinjaErrors, VariablesMustBeAnObject) {
  EXPECT_EQ(error_of("x", ordered_json::array()).code, Code::kInvalidArgument);
  EXPECT_EQ(error_of("{{ b }}", {{"b", ordered_json::binary({1, 2})}}).code, Code::kInvalidArgument);
}

// Endless work in every form reaches a limit, with its error.
TEST(JinjaLimits, EndlessWorkIsAnError) {
  const char* cases[] = {
      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
      "{% set l = range(100000) | list %}{% for a in l %}{{ 'x' in l }}{% endfor %}",
      "{% set l = range(100000) | list %}{% for a in l %}{{ (l | sort) is string }}{% endfor %}",
      "{% set s = 'a' * 1000000 %}{% for a in range(100000) %}{% set t = s | replace('b', 'c') %}{% endfor %}",
      "{% set s = 'a' * 1000000 %}{% for a in range(100000) %}{% set t = s[5] %}{% endfor %}",
      "{% set s = ('a' * 1000000).strip('b' * 1000000) %}{% for a in range(100) %}{{ s.strip('b' * 1000000)[0] }}{% "
      "endfor %}",
      "{{ ('a' * 100000) | wordwrap(1) | length }}",
  };
  JinjaLimits limits;
  limits.steps_max = 1'000'000;
  for (const char* source : cases) {
    const Error error = error_of(source, ordered_json::object(), limits);
    EXPECT_EQ(error.code, Code::kTooLarge) << source << ": " << error.text();
    EXPECT_THAT(error.message, HasSubstr("steps")) << source;
  }
}

TEST(JinjaLimits, TextsBeyondTheLimitAreErrors) {
  const char* cases[] = {
      "{{ 'a' * 1000000000000 }}",
      "{{ 'ab' * (2 ** 100) }}",
      "{% set ns = namespace(s='a') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "{% set ns = namespace(s='a') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% set ns = namespace(s='a') %}{% for i in range(100) %}{% set ns.s = ns.s.replace('a', 'aaaaaaaa') %}{% endfor "
      "%}",
      "{% set ns = namespace(s='a') %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] | join(ns.s) %}{% endfor %}",
      "{% set s = 'a' * 1000000 %}{% for i in range(100) %}{{ s }}{% endfor %}",
      "{{ 'a'.center(100000000000) }}",
      "{{ '%2000000000d' % 1 }}",
      "{{ '{:999999999}'.format(1) }}",
      "{{ 'a\\nb' | indent(10000000000) }}",
      "{{ '\\t'.expandtabs(10000000000) }}",
      "{{ 'a'.zfill(10000000000) }}",
      "{% set x = ' ' * 1000000 %}{{ [[[[[[[[1]]]]]]]] | tojson(indent=x) }}",
  };
  JinjaLimits limits;
  limits.output_bytes_max = 4 << 20;
  for (const char* source : cases) {
    const Error error = error_of(source, ordered_json::object(), limits);
    EXPECT_EQ(error.code, Code::kTooLarge) << source << ": " << error.text();
    EXPECT_THAT(error.message, HasSubstr("the limit is")) << source;
  }
}

TEST(JinjaLimits, ValuesBeyondTheMemoryLimitAreErrors) {
  const char* cases[] = {
      "{{ [0] * 1000000000000 }}",
      "{% set ns = namespace(l=[0]) %}{% for i in range(100) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "{{ ('a ' * 2000000).split() | length }}",
      "{{ ('a' * 4000000) | list | length }}",
  };
  JinjaLimits limits;
  limits.memory_bytes_max = 16 << 20;
  for (const char* source : cases) {
    const Error error = error_of(source, ordered_json::object(), limits);
    EXPECT_EQ(error.code, Code::kTooLarge) << source << ": " << error.text();
  }
  const ordered_json variables = {{"messages", std::string(2 << 20, 'x')}};
  limits.memory_bytes_max = 1 << 20;
  EXPECT_EQ(error_of("{{ messages }}", variables, limits).code, Code::kTooLarge);
}

// Only live memory counts, not all that was ever allocated: a text that is built piece by piece is no problem.
TEST(JinjaLimits, OnlyLiveMemoryCounts) {
  JinjaLimits limits;
  limits.memory_bytes_max = 1 << 20;
  const auto text = render(
      "{% set ns = namespace(s='') %}{% for i in range(2000) %}{% set ns.s = ns.s ~ '0123456789' %}{% endfor %}"
      "{{ ns.s | length }}",
      ordered_json::object(), limits);
  ASSERT_TRUE(text.has_value()) << text.error().text();
  EXPECT_EQ(*text, "20000");
}

TEST(JinjaLimits, RangesBeyondTheLimitAreErrors) {
  EXPECT_EQ(rendered("{{ range(100000) | length }}"), "100000");
  EXPECT_EQ(error_of("{{ range(100001) }}").code, Code::kTooLarge);
  EXPECT_EQ(error_of("{{ range(2 ** 60) }}").code, Code::kTooLarge);
  EXPECT_EQ(error_of("{{ range(0, -(2 ** 62), -(2 ** 61)) }}").code, Code::kTooLarge);
}

TEST(JinjaLimits, SourcesNestedTooDeepAreErrors) {
  constexpr int kMany = 20'000;
  const std::string cases[] = {
      "{{ " + repeated("(", kMany),
      "{{ " + repeated("[", kMany),
      "{{ " + repeated("{1:", kMany),
      "{{ " + repeated("not ", kMany) + "1 }}",
      "{{ " + repeated("-", kMany) + "1 }}",
      "{{ x" + repeated(".a", kMany) + " }}",
      "{{ x" + repeated("[0]", kMany) + " }}",
      "{{ x" + repeated("()", kMany) + " }}",
      "{{ x" + repeated(" is string", 1) + repeated("()", kMany) + " }}",
      "{{ 1" + repeated(" if 1", kMany) + " }}",
      "{{ 1" + repeated(" if 0 else 1", kMany) + " }}",
      repeated("{% if 1 %}", kMany),
      repeated("{% for x in y %}", kMany),
      repeated("{% macro m() %}", kMany),
      "{% set " + repeated("(", kMany),
      "{% for " + repeated("(", kMany),
  };
  for (const std::string& source : cases) {
    const auto parsed = JinjaTemplate::parse(source);
    ASSERT_FALSE(parsed.has_value()) << source.substr(0, 20);
    EXPECT_EQ(parsed.error().code, Code::kTooLarge) << source.substr(0, 20) << ": " << parsed.error().text();
  }
}

// Chains that are long but not deep have no such limit.
TEST(JinjaLimits, LongChainsOfOperatorsAreNotDeep) {
  constexpr int kMany = 20'000;
  EXPECT_EQ(rendered("{{ 0" + repeated(" + 1", kMany) + " }}"), std::to_string(kMany));
  EXPECT_EQ(rendered("{{ 1" + repeated(" * 1", kMany) + " }}"), "1");
  EXPECT_EQ(rendered("{{ (''" + repeated(" ~ 'ab'", kMany) + ") | length }}"), std::to_string(2 * kMany));
  EXPECT_EQ(rendered("{{ true" + repeated(" and true", kMany) + " }}"), "True");
  EXPECT_EQ(rendered("{{ 1" + repeated(" <= 1", kMany) + " }}"), "True");
  EXPECT_EQ(rendered("{{ 'a'" + repeated(" | upper", kMany) + " }}"), "A");
  EXPECT_EQ(rendered("{% if false %}" + repeated("{% elif false %}", kMany) + "{% else %}x{% endif %}"), "x");
}

TEST(JinjaLimits, RenderingsNestedTooDeepAreErrors) {
  const char* cases[] = {
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
      "{% macro m() %}{% call m() %}{{ caller }}{% endcall %}{% endmacro %}{{ m() }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}",
      "{% set ns = namespace(x={}) %}{% for i in range(100000) %}{% set ns.x = {'a': ns.x} %}{% endfor %}",
      "{% set ns = namespace(x=1) %}{% for i in range(100000) %}{% set ns.x = cycler(ns.x) %}{% endfor %}",
      "{% set ns = namespace(x='a') %}{% for i in range(100000) %}{% set ns.x = [ns.x] | select %}{% endfor %}",
      "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
  };
  for (const char* source : cases) {
    const Error error = error_of(source);
    EXPECT_EQ(error.code, Code::kTooLarge) << source << ": " << error.text();
  }
  ordered_json deep = 1;
  for (int i = 0; i < 10'000; ++i) {
    ordered_json outer = ordered_json::array();
    outer.push_back(std::move(deep));
    deep = std::move(outer);
  }
  EXPECT_EQ(error_of("{{ deep }}", {{"deep", std::move(deep)}}).code, Code::kTooLarge);
}

// A value that is shared many times is small in memory but endless when printed.
TEST(JinjaLimits, SharedValuesThatPrintEndlesslyAreErrors) {
  const std::string doubled =
      "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
  const std::string twice =
      "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = "
      "[ns.y, ns.y] %}{% endfor %}";
  JinjaLimits limits;
  limits.steps_max = 500'000;
  for (const std::string& source : {doubled + "{{ ns.x }}", doubled + "{{ ns.x | tojson }}",
                                    twice + "{{ ns.x == ns.y }}", twice + "{{ ns.x < ns.y }}"})
    EXPECT_EQ(error_of(source, ordered_json::object(), limits).code, Code::kTooLarge) << source;
}

TEST(JinjaLimits, SourcesOfTooManyBytesAreErrors) {
  EXPECT_EQ(JinjaTemplate::parse(std::string(kJinjaSourceBytesMax + 1, 'x')).error().code, Code::kTooLarge);
  EXPECT_TRUE(JinjaTemplate::parse(std::string(kJinjaSourceBytesMax, 'x')).has_value());
}

// Namespaces, macros and loops that refer to each other: LeakSanitizer reports those that are not freed.
TEST(JinjaMemory, CyclesAreFreed) {
  EXPECT_EQ(rendered("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{{ a.b.a.b is defined }}"),
            "True");
  EXPECT_EQ(rendered("{% set ns = namespace() %}{% macro m() %}{{ ns.m is defined }}{% endmacro %}{% set ns.m = m %}"
                     "{{ ns.m() }}"),
            "True");
  EXPECT_EQ(rendered("{% for x in [1] %}{{ loop.changed(loop) }}{% endfor %}"), "True");
  EXPECT_EQ(
      rendered("{% set ns = namespace() %}{% for i in range(3) %}{% set before = ns.l %}{% for x in [1] recursive %}"
               "{% set ns.l = loop %}{% endfor %}{% endfor %}{{ ns.l.index }}"),
      "1");
  // A long chain of namespaces is not destroyed by recursion.
  EXPECT_EQ(rendered("{% set ns = namespace(x=1) %}{% for i in range(50000) %}{% set ns.x = namespace(x=ns.x) %}"
                     "{% endfor %}{{ ns.x.x.x is defined }}"),
            "True");
}

TEST(JinjaThreads, OneTemplateRendersOnManyThreads) {
  const auto parsed = JinjaTemplate::parse(
      "{% macro m(x) %}[{{ x ~ 'é' | upper }}]{% endmacro %}{% set ns = namespace(n=0) %}"
      "{% for m_ in messages %}{% set ns.n = ns.n + 1 %}{{ m(m_.content) }}{{ 'const' * 2 }}{% endfor %}{{ ns.n }}"
      "{{ strftime_now('%Y') }}");
  ASSERT_TRUE(parsed.has_value());
  std::vector<std::string> results(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < results.size(); ++t)
    threads.emplace_back([&, t] {
      const ordered_json variables = {
          {"messages", ordered_json::array({ordered_json{{"content", std::to_string(t)}}})}};
      for (int i = 0; i < 50; ++i)
        results[t] = parsed->render(variables, kNothingOwn, 1768480496).value_or(Rendering{}).text;
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < results.size(); ++t) EXPECT_EQ(results[t], "[" + std::to_string(t) + "É]constconst12026");
}

TEST(JinjaSemantics, CasesThatTheFixturesLackRenderAsInJinja2) {
  const std::pair<const char*, const char*> cases[] = {
      // Rules of Jinja: ** from the left, minus before **, tests before arithmetic.
      {"{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2 + -1 | abs }}", "64 4 3"},
      {"{{ 7 // -2 }} {{ 7 % -2 }} {{ -7.5 % 2 }} {{ 7.5 // -2 }}", "-4 -1 0.5 -4.0"},
      {"{{ 18446744073709551615 + 1 }} {{ 2 ** 100 }}", "18446744073709551616 1267650600228229401496703205376"},
      {"{{ {1: 'a', 1.0: 'b', true: 'c'} }}", "{1: 'c'}"},
      // A condition sees changes by earlier iterations, unless the body uses the loop's length.
      {"{% set ns = namespace(p=0) %}{% for x in [1, 2, 3] if x > ns.p %}{% set ns.p = 2 %}{{ x }}{% endfor %}", "13"},
      // A lazy filter's values can be iterated once, and it is true even when empty.
      {"{% set m = [1, 2] | map('string') %}{{ m | list }}{{ m | list }}{{ 'yes' if [] | select }}", "['1', '2'][]yes"},
      {"{{ none | selectattr('x') | list }}", "[]"},
      // Macros see their own scope, including what is set after them.
      {"{% set v = 1 %}{% macro m() %}{{ v }}{% endmacro %}{% set v = 2 %}{{ m() }}", "2"},
      {"{% macro m() %}{{ loop is defined }}{% endmacro %}{% for x in [1] %}{{ m() }}{% endfor %}", "False"},
      {"{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m.name }}{{ m.arguments }}", "11m('a', 'b')"},
      {"{% macro m(x) %}{{ caller(x, y=2) }}{% endmacro %}{% call(a, y) m(5) %}{{ a }}{{ y }}{% endcall %}", "52"},
      {"{% for x in [[1, [2]], [3]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{% endif %}"
       "{% endfor %}",
       "(1(2))(3)"},
      // An unknown filter is an error only if it is reached.
      {"{% if false %}{{ 1 | nosuch }}{% endif %}{{ 1 | nosuch if false else 'ok' }}", "ok"},
      // Markup escapes text that is added to it.
      {"{{ ('a' | safe) + '<' }}{{ '<' + ('b' | safe) }}{{ ('c' | safe) ~ '<' }}", "a&lt;&lt;bc<"},
      {"{{ '{:>5}|{:^5}|{:05d}|{:,}|{:.2f}|{:x}'.format('a', 'b', 42, 1234567, 3.14159, 255) }}",
       "    a|  b  |00042|1,234,567|3.14|ff"},
      {"{{ '%(a)s-%(b)05d %5.1f' % {'a': 1, 'b': 42} if false else '%-5s|%+d|%#x' % ('ab', 5, 255) }}",
       "ab   |+5|0xff"},
      {"{{ 'hello world this is long' | wordwrap(10) }}", "hello\nworld this\nis long"},
      {"{{ ' a  b c '.split(none, 1) }}{{ ' a  b c '.rsplit(none, 1) }}", "['a', 'b c '][' a  b', 'c']"},
      {"{{ ['\\x00', '\\x7f', '\\u200b', 'a\\'b', 'é'] }}", "['\\x00', '\\x7f', '\\u200b', \"a'b\", 'é']"},
      {"{{ 42.55 | round(1) }} {{ 2.675 | round(2) }} {{ 25 | round(-1) }} {{ 42 | round }}", "42.5 2.67 20 42"},
      {"{% generation %}{% set x = 1 %}a{% endgeneration %}{{ x is defined }}", "aFalse"},
      {"{{ [1.0, 1e16, 1e-5, -0.0, 1e22] | tojson }}", "[1.0, 1e+16, 1e-05, -0.0, 1e+22]"},
      {"{{ 'é👋' | tojson(ensure_ascii=true) }}", "\"\\u00e9\\ud83d\\udc4b\""},
  };
  for (const auto& [source, text] : cases) EXPECT_EQ(rendered(source), text) << source;
}

// Bytes that are not UTF-8 pass through and never cause an access outside a string.
TEST(JinjaSemantics, IllFormedTextPassesThrough) {
  const ordered_json variables = {{"s", "a\xff\xc3(\xe6\x9d"}};
  EXPECT_EQ(rendered("{{ s }}", variables), "a\xff\xc3(\xe6\x9d");
  EXPECT_EQ(rendered("{{ s | length }}", variables), "6");
  EXPECT_EQ(rendered("{{ s[::-1] }}", variables),
            "\x9d\xe6(\xc3\xff"
            "a");
  EXPECT_EQ(rendered("{{ s | upper }}{{ s.strip() }}", variables),
            "A\xff\xc3(\xe6\x9d"
            "a\xff\xc3(\xe6\x9d");
}

}  // namespace
}  // namespace cairn::jinja
