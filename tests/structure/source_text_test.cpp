// The checks of text, on made-up text: each must be able to fail.
#include "catch.hpp"
#include "source_text.hpp"

using namespace trivium::structure;

TEST_CASE("lines are counted as an editor counts them")
{
    CHECK(lines_of("").empty());
    CHECK(lines_of("a\n").size() == 1);
    CHECK(lines_of("a\nb").size() == 2);
    CHECK(lines_of("a\n\nb\n") == std::vector<std::string>{"a", "", "b"});
}

TEST_CASE("comments go, literals and lines stay")
{
    CHECK(without_comments("a; // b") == "a;     ");
    CHECK(without_comments("a /* b\nc */ d") == "a     \n     d");
    CHECK(without_comments("\"// no comment\" /* one */") == "\"// no comment\"          ");
    CHECK(without_comments("R\"(\" // text)\" // gone") == "R\"(\" // text)\"        ");
    CHECK(without_comments("'\"' // gone") == "'\"'        ");
    CHECK(without_comments("1'000 // gone") == "1'000        ");
    CHECK(without_comments("\"a\\\" // text\"") == "\"a\\\" // text\"");
}

TEST_CASE("literals are blanked between their quotes, newlines stay")
{
    CHECK(without_literals("f(\"a // b\", 'c'); // d") == "f(\"      \", ' ');     ");
    CHECK(without_literals("R\"(a\nb)\" c") == "R\"  \n  \" c");
    CHECK(without_literals("1'000'000 \"\" \"a\\\"b\" c") == "1'000'000 \"\" \"    \" c");
    CHECK(without_literals("#include <a.h>") == "#include <a.h>");
}

TEST_CASE("a word ends where no word character follows")
{
    CHECK(has_word("b.rope(x)", "rope"));
    CHECK(has_word("\"rope\"", "rope"));
    CHECK_FALSE(has_word("rope_table", "rope"));
    CHECK_FALSE(has_word("europe", "rope"));
    CHECK(has_word("europe rope", "rope"));
}

TEST_CASE("a file of one line too many is found")
{
    const std::vector<SourceFile> files{{"a.cpp", "1\n2\n3\n"}, {"b.cpp", "1\n2\n"}};
    CHECK(too_long(files, 3).empty());
    REQUIRE(too_long(files, 2).size() == 1);
    CHECK(too_long(files, 2)[0] == "a.cpp: 3 lines, more than 2");
}

TEST_CASE("conditionals of the preprocessor are counted")
{
    CHECK(conditionals_per_1000_lines({}) == 0);
    CHECK(conditionals_per_1000_lines({{"a", "#include <x>\nif (y)\n// #if in a comment\n#define if_x\n"}}) ==
          0);
    CHECK(conditionals_per_1000_lines({{"a", "#ifdef X\n# if Y\n  #ifndef Z\n#endif\n"}}) == 750);
}

TEST_CASE("folders that do not exist have no files")
{
    CHECK(read_sources("/", "no/such/folder", {".cpp"}).empty());
}

TEST_CASE("a phrase is found as whole words")
{
    const std::vector<SourceFile> files{{"a.md", "it goes on\nit goes on on 4 ranks\nthe mischief\n"}};
    CHECK(containing(files, {"goes on on", "chief"}) == Findings{"a.md:2: 'goes on on'"});
}

TEST_CASE("a type that two headers define is found")
{
    const SourceFile first{"a.hpp", "namespace n {\nstruct Shard {\n};\nstruct Other;\n} // namespace n\n"};
    const SourceFile twin{"b.hpp", "namespace n {\nclass Shard final : Base {\n};\nstruct Other;\n}\n"};
    const SourceFile elsewhere{"c.hpp", "namespace m {\nstruct Shard {\n};\n}\n"};
    CHECK(types_defined_twice({first, elsewhere}).empty());
    CHECK(types_defined_twice({first, twin}) == Findings{"b.hpp:2: a.hpp has a type n::Shard, too"});
}
