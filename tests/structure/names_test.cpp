// The check of names, on made-up passes: it must be able to fail.
#include "catch.hpp"
#include "names.hpp"

using namespace trivium::structure;

namespace {

std::size_t found(const std::string& text)
{
    return check_names({{"src/passes/x.cpp", text}},
                       {{"matmul", "add", "fill", "rope"}, {"add", "fill"}, {"llama", "gpt2-124m"}})
        .size();
}

} // namespace

TEST_CASE("a pass that names nothing is clean")
{
    CHECK(found("b.sum_of(x, y); // a matmul, as in llama\n") == 0);
    CHECK(found("/* OpKind::matmul\n rope */ add(x);\nint rope_like = fill(2);\n") == 0);
    CHECK(found("b.value(name, type, Role::state, FillInit{0.0});\n") == 0);
}

TEST_CASE("an op in a pass is found")
{
    CHECK(found("if (op.kind == OpKind::anything)\n") == 1);
    CHECK(found("if (name == \"matmul\")\n") == 1);
    CHECK(found("matmul(x, y);\n") == 1);
    CHECK(found("if (name == \"add\")\n") == 1);
    CHECK(found("if (name == \"fill\")\n") == 1);
    CHECK(found("const OpInfo* row = find_op(text);\n") == 1);
    CHECK(found("x;\nrope(\n") == 1);
}

TEST_CASE("a model in a pass is found")
{
    CHECK(found("if (model == \"llama\")\n") == 1);
    CHECK(found("if (preset == \"gpt2-124m\")\n") == 1);
    CHECK(found("if (config.family == Family::other)\n") == 1);
}

TEST_CASE("the place is named")
{
    CHECK(check_names({{"src/passes/x.cpp", "\n\nrope\n"}}, {{"rope"}, {}, {}}) ==
          Findings{"src/passes/x.cpp:3: a pass names the op 'rope'"});
}
