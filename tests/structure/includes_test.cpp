// The check of includes, on made-up files: it must be able to fail.
#include "catch.hpp"
#include "includes.hpp"

using namespace trivium::structure;

namespace {

const SourceFile shape{"src/ir/shape.hpp",
                       "#include <vector>\nstruct Shape {\n    std::vector<int> dims;\n};\n"};

Findings missing_in(const std::string& text)
{
    return check_self_contained(
        {shape, {"src/ir/x.hpp", "#include \"ir/shape.hpp\"\n"}, {"src/plan/y.cpp", text}}, {"src/"});
}

} // namespace

TEST_CASE("what is included, in whatever number of steps, may be used")
{
    CHECK(missing_in("#include \"ir/shape.hpp\"\nShape a; std::vector<Shape> b;\n").empty());
    CHECK(missing_in("#include \"ir/x.hpp\"\nShape a; std::vector<Shape> b;\n").empty());
    CHECK(missing_in("#include <set>\nstd::set<int> a; // std::map<Shape>\n").empty());
    CHECK(missing_in("struct Shape;\nvoid take(Shape&);\n").empty());
    CHECK(missing_in("enum class Kind { Shaped };\nint a = other::Shape + b.Shape;\n").empty());
}

TEST_CASE("a forgotten include is found")
{
    CHECK(missing_in("\nstd::vector<int> a;\n") ==
          Findings{"src/plan/y.cpp:2: std::vector without <vector>"});
    CHECK(missing_in("#include \"ir/shape.hpp\"\nstd::map<int, Shape> a;\n") ==
          Findings{"src/plan/y.cpp:2: std::map without <map>"});
    CHECK(missing_in("void take(const Shape& a, Shape b);\n") ==
          Findings{"src/plan/y.cpp:1: Shape without src/ir/shape.hpp"});
}
