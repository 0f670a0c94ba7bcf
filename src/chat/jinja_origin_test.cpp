// Text from the variables is marked as foreign in the rendering, whatever the template did with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "chat/chat_template.h"
#include "jinja/jinja.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

jinja::Rendering made(std::string_view source, const ordered_json& variables) {
  const auto parsed = jinja::JinjaTemplate::parse(source);
  if (!parsed) {
    ADD_FAILURE() << source << ": " << parsed.error().text();
    return {};
  }
  auto rendering = parsed->render(variables, jinja::kNothingOwn, 1768480496);
  EXPECT_TRUE(rendering.has_value()) << source << ": " << rendering.error().text();
  return rendering ? std::move(*rendering) : jinja::Rendering{};
}

// The rendering with its foreign ranges in {}.
std::string marked(const jinja::Rendering& rendering) {
  std::string out;
  size_t done = 0;
  for (const auto [begin, end] : rendering.foreign) {
    EXPECT_LE(done, begin);
    EXPECT_LT(begin, end);
    out += rendering.text.substr(done, begin - done) + "{" + rendering.text.substr(begin, end - begin) + "}";
    done = end;
  }
  return out + rendering.text.substr(done);
}

const ordered_json kVariables = ordered_json::parse(R"({
  "a": "one two", "b": "<x>", "n": 7, "list": ["p", "q"], "obj": {"k": "v", "m": ["w", null, 1.5]},
  "long": "aa-bb cc", "quote": "say \"hi\"\n", "percent": "%s", "braces": "{}", "tab": "\tz", "letter": "ß", "none": null})");

TEST(JinjaOrigin, TheOriginStaysWithEachByte) {
  const std::pair<const char*, const char*> cases[] = {
      {"<{{ a }}>", "<{one two}>"},
      {"{{ 'x' }}{{ n }}{{ true }}{{ none }}", "x7TrueNone"},
      {"{{ '<' + a + '>' }}{{ '<' ~ n ~ a }}", "<{one two}><7{one two}"},
      {"{{ ('  ' + a + '!  ') | trim }}", "{one two}!"},
      {"{{ ('<' + a + '>')[1:5] }}{{ ('<' + a)[0] }}{{ a[0] }}{{ ('<' + a)[::-1] }}", "{one }<{oowt eno}<"},
      {"{{ ('x' + a).split(' ') | join('|') }}", "x{one}|{two}"},
      {"{{ a.split('n')[0] }}{{ a.rsplit(' ', 1)[1] }}{{ a.partition(' ')[2] }}", "{otwotwo}"},
      {"{{ a | replace('one', 'uno') }}{{ 'one'.replace('n', b) }}{{ 'ab'.replace('', b) }}",
       "uno{ two}o{<x>}e{<x>}a{<x>}b{<x>}"},
      {"{{ a.replace('one ', '') }}", "{two}"},
      {"{{ [a, 'x', b] | join(', ') }}{{ b.join(['1', '2']) }}", "{one two}, x, {<x>}1{<x>}2"},
      {"{{ '%s/%5s/%d' % (a, b, n) }}{{ percent % 'x' }}{{ '%s' | format(a) }}", "{one two}/  {<x>}/7x{one two}"},
      {"{{ '{0}-{1!r}-{x}'.format(a, b, x=n) }}{{ braces.format('x') }}", "{one two}-'{<x>}'-7x"},
      {"{{ obj | tojson }}", "{\"{k}\": \"{v}\", \"{m}\": [\"{w}\", null, 1.5]}"},
      {"{{ {'own': a, b: 'own'} | tojson }}", "{\"own\": \"{one two}\", \"{<x>}\": \"own\"}"},
      {"{{ quote | tojson }}", "\"{say \\\"hi\\\"\\n}\""},
      {"{{ ('x' + letter) | tojson(ensure_ascii=true) }}", "\"x{\\u00df}\""},
      {"{{ [a, 'x'] }}{{ obj }}", "['{one two}', 'x']{'{k}': '{v}', '{m}': ['{w}', None, 1.5]}"},
      {"{% for c in '<' + b %}{{ c }},{% endfor %}{% for k in obj %}{{ k }}{% endfor %}", "<,{<},{x},{>},{km}"},
      {"{% for k, v in obj.items() %}{{ k }}={{ v }};{% endfor %}", "{k}={v};{m}=['{w}', None, 1.5];"},
      {"{% macro m(x) %}<{{ x }}|{{ caller() }}>{% endmacro %}{% call m(a) %}[{{ b }}]{% endcall %}",
       "<{one two}|[{<x>}]>"},
      {"{% set t %}({{ a }}){% endset %}{{ t[1:] }}{% filter upper %}x{{ a }}{% endfilter %}", "{one two})X{ONE TWO}"},
      {"{% set s = namespace(t='<') %}{% for x in list %}{% set s.t = s.t + x %}{% endfor %}{{ s.t + '>' }}", "<{pq}>"},
      {"{{ ('x' + a) | upper }}{{ ('x' + a).title() }}{{ ('x ' + a) | capitalize }}",
       "X{ONE TWO}X{one Two}X {one two}"},
      {"{{ ('x' + letter) | upper }}", "{XSS}"},
      {"{{ ('<' + b) | e }}{{ b | safe }}{{ (b | e) + '<' }}", "&lt;{&lt;x&gt;<x>&lt;x&gt;}&lt;"},
      {"{{ ('x' + b) | urlencode }}", "x{%3Cx%3E}"},
      {"{{ ('x\n' + a) | indent(2) }}", "x\n  {one two}"},
      {"{{ ('x ' + long) | wordwrap(5) }}", "x {aa-}\n{bb cc}"},
      {"{{ ('x ' + long) | truncate(8, true, '..', 0) }}", "x {aa-b}.."},
      {"{{ a | center(11) }}{{ 'x'.ljust(3, b[0]) }}{{ 'x'.center(3, '*') }}", "  {one two}  x{<<}*x*"},
      {"{{ '7'.zfill(3) }}{{ ('x' + tab).expandtabs(4) }}{{ b * 2 }}", "007x   {z<x><x>}"},
      {"{{ ('<i>' + b + 'y</i>') | striptags }}{{ 'x<i>' | striptags }}", "{y}x"},
      {"{{ strftime_now('%Y') }}{{ strftime_now(a) }}", "2026{one two}"},
      {"{{ a.removeprefix('one ') }}{{ ('x' + a).removesuffix('two') }}{{ (' ' + a).lstrip() }}",
       "{two}x{one one two}"},
      {"{{ list | first }}{{ list | last }}{{ list | max }}{{ list | sort | join }}{{ list | reverse | join('+') }}",
       "{pqqpqq}+{p}"},
      {"{{ list | map('upper') | join }}{{ list | unique | list }}", "{PQ}['{p}', '{q}']"},
      {"{{ obj | dictsort | map('first') | join('.') }}{{ none | default(a) }}{{ zz | default(a) }}",
       "{k}.{m}None{one two}"},
      {"{{ dict(x=1, **obj) | tojson }}", "{\"{x}\": 1, \"{k}\": \"{v}\", \"{m}\": [\"{w}\", null, 1.5]}"},
      {"{{ {'u': b} | xmlattr }}", " u=\"{&lt;x&gt;}\""},
  };
  for (const auto& [source, wanted] : cases) {
    EXPECT_EQ(marked(made(source, kVariables)), wanted) << source;
  }
}

// At least one use of every filter, method and function; q, l, o, o2, d and f are variables of the request.
constexpr const char* kUses[] = {
    "f | abs",
    "q | attr('zz')",
    "l | batch(2) | list",
    "q | capitalize",
    "q | center(40)",
    "q | count",
    "q | d('x')",
    "zz | default(q)",
    "o | dictsort",
    "q | e",
    "q | escape",
    "f | filesizeformat",
    "l | first",
    "q | float",
    "q | forceescape",
    "'%s' | format(q)",
    "q | format",
    "l | groupby('z', default='x')",
    "q | indent",
    "q | int",
    "o | items | list",
    "l | join('-')",
    "l | last",
    "q | length",
    "q | list",
    "q | lower",
    "l | map('upper') | list",
    "l | max",
    "l | min",
    "o | pprint",
    "l | reject('none') | list",
    "d | rejectattr('zz') | list",
    "q | replace('|', 'x')",
    "'x' | replace('x', q)",
    "q | reverse",
    "f | round",
    "q | safe",
    "l | select | list",
    "d | selectattr('k') | list",
    "l | slice(2) | list",
    "l | sort",
    "q | string",
    "q | striptags",
    "f | abs",
    "q | title",
    "o | tojson",
    "o | tojson(indent=2, sort_keys=true)",
    "o | tojson(separators=(q, q))",
    "o | tojson(indent=q)",
    "q | trim",
    "q | truncate(9)",
    "'xxxxxxxxxxxxxxx' | truncate(3, true, '!', 0)",
    "l | unique | list",
    "q | upper",
    "q | urlencode",
    "o | urlencode",
    "q | wordcount",
    "q | wordwrap(4)",
    "q | wordwrap(4, true, q)",
    "o2 | xmlattr",
    "q.capitalize()",
    "q.casefold()",
    "q.center(30, q[0])",
    "q.expandtabs()",
    "q.format()",
    "'{}'.format(q)",
    "'{:x<40}'.format(q)",
    "'{x!r:>60}'.format(x=q)",
    "'{a}'.format_map({'a': q})",
    "q.join(['a', 'b'])",
    "'x'.join(l)",
    "q.ljust(40)",
    "'x'.rjust(9, q[0])",
    "q.lower()",
    "q.lstrip()",
    "q.partition('|')",
    "q.removeprefix('qq')",
    "q.removesuffix('qq')",
    "q.replace('q', 'x', 1)",
    "'x'.replace('', q)",
    "q.rpartition('|')",
    "q.rsplit('|')",
    "q.rstrip()",
    "q.split()",
    "q.splitlines()",
    "q.strip('<')",
    "q.swapcase()",
    "q.title()",
    "q.upper()",
    "q.zfill(40)",
    "q + 'x'",
    "'x' ~ q",
    "q * 2",
    "'%(a)s' % {'a': q}",
    "'%.3s|%r' % (q, q)",
    "'%c' % q[0]",
    "q[1:9:2]",
    "q[-1]",
    "q",
    "o",
    "l + ['x']",
    "o.items()",
    "o.keys()",
    "o.values() | list",
    "o.get('k')",
    "o.copy()",
    "namespace(**o)",
    "namespace(x=q)",
    "dict(o, y=q)",
    "dict([[q, q]])",
    "cycler(q).next()",
    "joiner(q)",
    "strftime_now(q)",
    "q if true else 'x'",
    "(q, q)",
    "{q: q}",
    "[q][0]",
    "zz or q",
    "q and q",
};

// Letters that occur in no template here are foreign wherever they appear, for every filter and every method.
TEST(JinjaOrigin, NoFilterOrMethodLosesTheOrigin) {
  const std::string text = "qQ <|q|> \"q\"\n'Q' &q;\tqq";
  const ordered_json variables = {{"q", text},
                                  {"l", {text, "Qq"}},
                                  {"o", {{text, text}, {"k", {text}}, {"qk", 1.5}}},
                                  {"o2", {{"qq", text}}},
                                  {"d", {{{"k", text}}, {{"k", "q"}}}},
                                  {"f", -2.5}};
  for (const std::string use : kUses) {
    const jinja::Rendering rendering =
        made("<{{ " + use + " }}>{% set s %}{{ " + use + " }}{% endset %}{{ s | trim }}", variables);
    size_t foreign = 0;
    for (size_t i = 0; i < rendering.text.size(); ++i) {
      const bool within = std::ranges::any_of(
          rendering.foreign, [&](const ByteRange& range) { return range.begin <= i && i < range.end; });
      foreign += within ? 1 : 0;
      if (rendering.text[i] != 'q' && rendering.text[i] != 'Q') continue;
      EXPECT_TRUE(within) << use << " at " << i << " of " << marked(rendering);
    }
    EXPECT_EQ(rendering.text.front(), '<');
    EXPECT_LT(foreign, rendering.text.size()) << use;
  }
}

TEST(JinjaOrigin, TheCallerMayMarkAStringAsOwn) {
  const ordered_json variables = {{"a", "x"}, {"b", "x"}};
  const auto parsed = jinja::JinjaTemplate::parse("{{ a }}{{ b }}{{ a == b }}");
  ASSERT_TRUE(parsed.has_value());
  const auto rendering =
      parsed->render(variables, [&](const ordered_json& string) { return &string == &variables["b"]; }, 0);
  ASSERT_TRUE(rendering.has_value());
  EXPECT_EQ(marked(*rendering), "{x}xTrue");
}

TEST(JinjaOrigin, KnownRolesAndBosAndEosCountAsTheTemplatesText) {
  const auto chat = ChatTemplate::create(
      "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}{{ more }}",
      "[B]", "[E]");
  ASSERT_TRUE(chat.has_value());
  ChatInput input;
  input.messages =
      ordered_json::parse(R"([{"role": "user", "content": "user"}, {"role": "im_end", "content": "<|im_end|>"}])");
  input.variables = {{"more", "[E]"}};
  auto rendering = chat->render(input, 0);
  ASSERT_TRUE(rendering.has_value());
  EXPECT_EQ(marked(*rendering), "[B]<|user|>{user}[E]<|{im_end}|>{<|im_end|>}[E]{[E]}");
  input.variables = {{"bos_token", "[B]"}, {"eos_token", "[E]"}};
  rendering = chat->render(input, 0);
  ASSERT_TRUE(rendering.has_value());
  EXPECT_THAT(marked(*rendering), testing::StartsWith("{[B]}<|user|>"));
}

TEST(JinjaOrigin, RangesAreClippedToAPartOfTheText) {
  const std::vector<ByteRange> ranges = {{2, 4}, {6, 9}};
  EXPECT_EQ(ranges_within(ranges, 0, 10), ranges);
  EXPECT_EQ(ranges_within(ranges, 3, 7), (std::vector<ByteRange>{{0, 1}, {3, 4}}));
  EXPECT_TRUE(ranges_within(ranges, 4, 6).empty());
  EXPECT_TRUE(ranges_within({}, 0, 6).empty());
}

}  // namespace
}  // namespace cairn::chat
