#include "io/chat/jinja/template.hpp"

#include "base/check.hpp"
#include "catch.hpp"
#include "has.hpp"

using namespace trivium;

namespace {

std::string rendered(const std::string& source,
                     const nlohmann::ordered_json& variables = nlohmann::ordered_json::object(),
                     i64 steps = jinja::default_work)
{
    jinja::Variables all;
    for (const auto& [name, value] : variables.items())
        all.emplace_back(name, jinja::value_of(value));
    return jinja::Template(source, "t.jinja").render(all, 0, steps).text();
}

std::string failure_of(const std::string& source, i64 steps = jinja::default_work)
{
    try {
        return "no error: " + rendered(source, {}, steps);
    } catch (const UserError& error) {
        return error.what();
    }
}

} // namespace

/// Checks that a message contains a part, and shows both where it does not.
#define CHECK_HAS(message, part)                                                                             \
    do {                                                                                                     \
        const std::string said = message;                                                                    \
        INFO(said);                                                                                          \
        CHECK(has(said, part));                                                                              \
    } while (false)

TEST_CASE("Expressions of templates are those of Python")
{
    // What jinja2 3.1.6 prints with Python 3.11.
    const std::vector<std::pair<std::string, std::string>> cases{
        {"7 // -2 ~ ' ' ~ 7 % -2 ~ ' ' ~ -7 // 2 ~ ' ' ~ 7 / 2", "-4 -1 -4 3.5"},
        {"1e20 ~ ' ' ~ 1e16 ~ ' ' ~ 123456.0 ~ ' ' ~ 1e-5 ~ ' ' ~ 0.1", "1e+20 1e+16 123456.0 1e-05 0.1"},
        {"[1, 'a', none, true, 1.0, {'k': (1,)}]", "[1, 'a', None, True, 1.0, {'k': (1,)}]"},
        {"[\"it's\", 'a\\n', '\\u00e9\\u200b']", "[\"it's\", 'a\\n', 'é\\u200b']"},
        {"'héllo'[::-1] ~ 'héllo'[1:3] ~ 'héllo'[-1] ~ 'héllo'|length", "olléhélo5"},
        {"1 < 2 and not 3 < 2", "True"},
        {"'a' in 'cat' and 2 in [1, 2] and 'k' in {'k': 1} and 'x' not in undefined_name", "True"},
        {"(undefined_name is defined) ~ undefined_name ~ (undefined_name == none)", "FalseFalse"},
        {"'a b  c'.split() ~ 'a,b,c'.split(',', 1) ~ ' x '.strip()", "['a', 'b', 'c']['a', 'b,c']x"},
        {"{'b': 'é\"', 'a': [1, none, true, {}]} | tojson", "{\"b\": \"é\\\"\", \"a\": [1, null, true, {}]}"},
        {"{'b': 1, 'a': [1]} | tojson(indent=2, sort_keys=true)",
         "{\n  \"a\": [\n    1\n  ],\n  \"b\": 1\n}"},
        {"{'a': 1} | tojson(separators=(',', ':'))", "{\"a\":1}"},
        {"'é😀' | tojson(ensure_ascii=true)", "\"\\u00e9\\ud83d\\ude00\""},
        {"[3, 1, 2] | sort | join('-') ~ ['b', 'A'] | sort | first", "1-2-3A"},
        {"'%s=%d%%' % ('x', 7) ~ '{}|{}{{'.format('a', 1)", "x=7%a|1{"},
        {"'aaa'.rsplit('aa') ~ 'a.b.c'.rsplit('.', 1) ~ 'a-b'.partition('-')",
         "['a', '']['a.b', 'c']('a', '-', 'b')"},
        {"('7' | int + 1) ~ 'ab'.find('b') ~ 'ab'.rfind('x')", "81-1"},
        {"'hello world'|title ~ 'HELLO'|capitalize ~ ' x '|trim ~ 'a-b'|upper", "Hello WorldHellox"
                                                                                "A-B"},
        {"dict({'a': 1}, b=2)", "{'a': 1, 'b': 2}"},
        {"('42.9'|int) ~ ('x'|int(3))", "423"},
        {"{'a': 1}.items() | list ~ {'a': 1}.get('b', 2)", "[('a', 1)]2"},
        {"([] | map('upper') ) and true", "True"}, // iterators are true
        {"'<a>' | e ~ '<b>' | safe ~ ('<' | safe + '>')", "&lt;a&gt;<b><&gt;"},
    };
    for (const auto& [expression, expected] : cases) {
        INFO(expression);
        CHECK(rendered("{{ " + expression + " }}") == expected);
    }
}

TEST_CASE("White space goes as with trim_blocks and lstrip_blocks")
{
    CHECK(rendered("a\n  {% if true %}\n  b\n  {% endif %}\nc\n") == "a\n  b\nc");
    CHECK(rendered("a {%- if true %} b {% endif -%}\n c") == "a b c");
    CHECK(rendered("a\n  {%+ if true %}b{% endif +%}\nc") == "a\n  b\nc");
    CHECK(rendered("a\n  {# note #}\nb {{- 'c' -}}  d") == "a\nbcd");
    CHECK(rendered("{{ 1 }}\n\n") == "1\n");
    CHECK(rendered("  {{ 1 }}\r\n  {% set x = 1 %}\r\ny") == "  1\ny");
}

TEST_CASE("Loops, macros and scopes behave as in jinja2")
{
    CHECK(rendered("{% for x in [1, 2, 3] if x != 2 %}{{ loop.index }}{{ x }}{{ ',' if not loop.last }}{% "
                   "endfor %}") == "11,23");
    CHECK(rendered("{% for x in [] %}a{% else %}none{% endfor %}") == "none");
    CHECK(rendered("{% set n = 1 %}{% for x in [1, 2] %}{% set n = n + x %}{{ n }}{% endfor %}{{ n }}") ==
          "231");
    CHECK(rendered("{% set ns = namespace(n=1) %}{% for x in [1, 2] %}{% set ns.n = ns.n + x %}{% endfor "
                   "%}{{ ns.n }}") == "4");
    CHECK(
        rendered(
            "{% for x in [1, 2, 3, 4] %}{% if x == 2 %}{% continue %}{% elif x == 4 %}{% break %}{% endif %}"
            "{{ x }}{% endfor %}") == "13");
    CHECK(rendered("{% macro m(a, b='d') %}{{ a }}{{ b }}{{ caller() if caller }}{% endmacro %}"
                   "{{ m(1) }}{{ m(b=2, a=1) }}{% call m('x') %}!{% endcall %}") == "1d12xd!");
    CHECK(rendered("{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k ~ v }}{{ loop.nextitem }}{% endfor %}") ==
          "a1('b', 2)b2");
    CHECK(rendered("{% set x %}a{{ 1 }}{% endset %}{% filter upper|trim %}{{ x }}b {% endfilter %}") ==
          "A1B");
}

TEST_CASE("Errors of templates have the line and a reason")
{
    CHECK_HAS(failure_of("a\n{% if x %}"), "t.jinja:2");
    CHECK_HAS(failure_of("{{ 1 +  }}"), "t.jinja:1: is not a valid chat template");
    CHECK_HAS(failure_of("\n\n{{ 'a }}"), "t.jinja:3");
    CHECK_HAS(failure_of("{% nonsense %}"), "unknown tag 'nonsense'");
    CHECK_HAS(failure_of("{% include 'x' %}"), "needs other templates");
    CHECK_HAS(failure_of("{% break %}"), "outside a loop");
    CHECK_HAS(failure_of("a\n{{ x.y }}"), "t.jinja:2: the chat template fails: 'x' is undefined");
    CHECK_HAS(failure_of("{{ {}.a.b }}"), "'dict object' has no attribute 'a'");
    CHECK_HAS(failure_of("{{ 'a' + 1 }}"), "can only concatenate str");
    CHECK_HAS(failure_of("{{ 1 | nonsense }}"), "the filter 'nonsense' is not supported");
    CHECK_HAS(failure_of("{{ [].append(1) }}"), "access to attribute 'append' of 'list' object is unsafe");
    CHECK_HAS(failure_of("{{ ''.__class__.x }}"), "__class__");
    CHECK_HAS(failure_of("{{ 9223372036854775807 + 1 }}"), "does not fit 64 bits");
    CHECK_HAS(failure_of("{{ raise_exception('roles must take turns') }}"),
              "refuses the chat: roles must take turns");
    CHECK_HAS(failure_of("{% set a.b = 1 %}"), "non-namespace");
}

TEST_CASE("What templates of chats do not use is refused by name")
{
    const std::vector<std::pair<std::string, std::string>> cases{
        {"{{ 2 ** 3 }}", "operator **"},
        {"{{ +1 }}", "sign +"},
        {"{{ 1 < 2 < 3 }}", "chained comparisons"},
        {"{{ 1_000 }}", "other forms"},
        {"{{ dict(*[1]) }}", "* or **"},
        {"{{ 7.5 // 2 }}", "operator //"},
        {"{{ '\\101' }}", "escape \\1"},
        {"{% raw %}{{ }}{% endraw %}", "tag 'raw'"},
        {"{% with x = 1 %}{% endwith %}", "tag 'with'"},
        {"{% block b %}{% endblock %}", "tag 'block'"},
        {"{% for x in [1] recursive %}{% endfor %}", "recursive"},
        {"{% macro m() %}{{ kwargs }}{% endmacro %}", "'kwargs' of macros"},
        {"{% for x in [1] %}{{ loop.cycle('a', 'b') }}{% endfor %}", "loop.cycle"},
        {"{{ [1] | batch(2) }}", "filter 'batch'"},
        {"{{ [1] | groupby('x') }}", "filter 'groupby'"},
        {"{{ 1 | round }}", "filter 'round'"},
        {"{{ [1].index(1) }}", "'index' of 'list'"},
        {"{{ 1 is callable }}", "test 'callable'"},
        {"{{ 'a'.zfill(3) }}", "'zfill' of 'str'"},
        {"{{ 'a'.find('a', 1) }}", "find() takes at most 1"},
        {"{{ '%r' % 1 }}", "only %s, %d"},
        {"{{ '{:>4}'.format(1) }}", "{:>4}"},
        {"{{ range(3) }}", "use the filter list"},
        {"{{ {(1, 2): 3} }}", "key of type 'tuple' of a dict"},
        {"{{ joiner(',') }}", "'joiner' is undefined"},
    };
    for (const auto& [source, part] : cases) {
        INFO(source);
        CHECK_HAS(failure_of(source), part);
    }
}

TEST_CASE("A text without a template is refused")
{
    CHECK_HAS(failure_of(""), "t.jinja: is empty");
    CHECK_HAS(failure_of(" \n"), "t.jinja: is empty");
    CHECK_HAS(failure_of("a\xff"), "t.jinja: is not UTF-8 at byte offset 1");
    CHECK_HAS(failure_of("{% for a in [1] %}"), "where 'endfor' is expected");
    CHECK_HAS(failure_of("{% if true %}"), "where 'endif' is expected");
}

TEST_CASE("Templates cannot take all time or memory")
{
    const std::string twice = "{% set ns = namespace(x='a' * 1000) %}{% for i in range(60) %}{% set ns.x = "
                              "ns.x + ns.x %}{% endfor %}";
    CHECK_HAS(failure_of(twice), "too many steps");
    CHECK_HAS(failure_of("{{ 'a' * 1000000000000 }}"), "MiB");
    CHECK_HAS(failure_of("{{ [0] * 1000000000000 }}", 1'000'000), "too many steps");
    CHECK_HAS(failure_of("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
                         1'000'000),
              "too many steps");
    // Copies are paid for by their bytes, before they are made.
    CHECK_HAS(failure_of("{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x "
                         "%}{% endfor %}"),
              "too many steps");
    CHECK_HAS(failure_of("{% set ns = namespace(x=[], t='a' * 1000000) %}{% for i in range(1000) %}{% set "
                         "ns.x = ns.x + [ns.t + 'b'] %}{% endfor %}"),
              "too many steps");
    CHECK_HAS(failure_of("{{ range(1000000000) }}"), "range too big");
    CHECK_HAS(failure_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), "nests too deeply");
    // Values that contain others twice, and many levels of them.
    const std::string doubled =
        "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
    for (const std::string& use : std::vector<std::string>{
             "{{ ns.x }}", "{{ ns.x | tojson }}", "{% set y = ns.x %}" + doubled + "{{ ns.x == y }}"})
        CHECK_HAS(failure_of(doubled + use, 1'000'000), "too many steps");
    CHECK_HAS(
        failure_of(
            "{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}"),
        "nests more than");
    // Objects that refer to themselves are freed; leaks are the sanitizer's to find.
    CHECK(rendered(
              "{% set ns = namespace() %}{% set ns.x = ns %}{% macro m() %}{% endmacro %}{% set ns.m = m %}"
              "{% for i in [1] %}{% set ns.l = loop %}{% endfor %}ok") == "ok");
    CHECK(rendered("{% set ns = namespace() %}{% for i in range(50000) %}{% set ns.x = namespace(x=ns.x) "
                   "%}{% endfor %}ok") == "ok");
    std::string deep;
    for (int i = 0; i < 100'000; ++i)
        deep += "(";
    CHECK_HAS(failure_of("{{ " + deep), "nested too deeply");
    CHECK_HAS(failure_of("{{ 1" + std::string(100'000, '-') + "1 }}"), "nested too deeply");
    std::string sum = "{{ 1";
    for (int i = 0; i < 10'000; ++i)
        sum += " + 1";
    CHECK_HAS(failure_of(sum + " }}"), "nested too deeply");
}
