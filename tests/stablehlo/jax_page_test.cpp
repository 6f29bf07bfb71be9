// docs/jax.md: its commands print what it shows, and its table names the ops that are imported.
#include "catch.hpp"
#include "programs/page.hpp"
#include "stablehlo/import.hpp"
#include "train/program.hpp"

#include <algorithm>

using namespace trivium;

namespace {

const std::string jax_page = TRIVIUM_SOURCE "/docs/jax.md";

} // namespace

TEST_CASE("each command of docs/jax.md prints what the page shows")
{
    const Folder folder;
    const std::vector<page::Block> blocks = page::read_blocks(jax_page);
    for (const page::Block& block : blocks)
        if (block.kind == "mlir")
            write_text(folder / block.name, block.text);
    const std::vector<page::Command> commands = page::read_commands(blocks);
    CHECK(commands.size() >= 5);
    for (const page::Command& command : commands) {
        const Outcome outcome = run_program({command.words.begin() + 1, command.words.end()}, folder.path());
        INFO("docs/jax.md:" << command.line);
        const bool wrong = command.words.back().starts_with("wrong");
        CHECK(outcome.status == (wrong ? 2 : 0));
        CHECK(page::without_roundings(wrong ? outcome.err : outcome.out) ==
              page::without_roundings(command.prints));
    }
}

TEST_CASE("the table of docs/jax.md names every op that is imported")
{
    std::vector<std::string> names = page::names_in_tables(jax_page, "## What is imported");
    std::ranges::sort(names);
    CHECK(names == imported_hlo_ops());
}

TEST_CASE("graph import and export as commands")
{
    const Folder folder;
    std::string numbers;
    for (int i = 0; i < 100; ++i)
        numbers += (i ? ", " : "") + std::to_string(i * i % 17) + ".5";
    write_text(folder / "closed.mlir",
               "func.func @main(%x: tensor<100xf32>) -> tensor<100xf32> {\n"
               "  %w = stablehlo.constant dense<[" +
                   numbers +
                   "]> : tensor<100xf32>\n"
                   "  %y = stablehlo.multiply %x, %w : tensor<100xf32>\n  return %y : tensor<100xf32>\n}\n");
    const Outcome without = run_program({"graph", "import", "closed.mlir"}, folder.path());
    CHECK(without.status == 2);
    CHECK(without.err.find("--constants FILE.safetensors") != std::string::npos);
    const Outcome with = run_program(
        {"graph", "import", "closed.mlir", "--constants", "w.safetensors", "--output", "closed.graph"},
        folder.path());
    CHECK(with.status == 0);
    CHECK(read_text(folder / "closed.graph").find("input %constant0 : f32[100]") != std::string::npos);
    CHECK(read_text(folder / "w.safetensors").find("\"constant0\"") != std::string::npos);
    CHECK(run_program({"graph", "export", "closed.graph", "--output", "again.mlir"}, folder.path()).status ==
          0);
    const Outcome again = run_program({"graph", "import", "again.mlir"}, folder.path());
    CHECK(again.status == 0);
    CHECK(again.out.find("input %constant0 : f32[100]") != std::string::npos);
    CHECK(run_program({"graph", "import", "again.mlir", "--constants", "none.safetensors"}, folder.path())
              .status == 0);
    CHECK(read_text(folder / "none.safetensors").substr(8, 2) == "{}");
    CHECK(run_program({"graph"}, folder.path()).status == 2);
    CHECK(run_program({"graph", "import", "missing.mlir"}, folder.path()).status != 0);
}
