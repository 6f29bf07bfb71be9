// docs/graphs.md: its graphs compile, its commands print what it shows, its tables name the keys of the JSON,
// and the parser accepts what its grammar allows.
#include "base/check.hpp"
#include "catch.hpp"
#include "ebnf.hpp"
#include "ir/text/text.hpp"
#include "page.hpp"
#include "plan/graph_file.hpp"
#include "soak_settings.hpp"
#include "train/program.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <random>
#include <set>

using namespace trivium;

namespace {

using nlohmann::json;

const std::string page_path = TRIVIUM_SOURCE "/docs/graphs.md";

bool is_wrong(const page::Block& block) { return block.name.starts_with("wrong"); }

/// The graphs of the page, as files.
void write_graphs(const Folder& folder)
{
    for (const page::Block& block : page::read_blocks(page_path))
        if (block.kind == "graph")
            write_text(folder / block.name, block.text);
}

Outcome run_command(const page::Command& command, const Folder& folder)
{
    std::vector<std::string> words = command.words;
    if (words[0] == "trivium")
        return run_program({words.begin() + 1, words.end()}, folder.path());
    REQUIRE(words[0] == "mpirun");
    REQUIRE(words[1] == "-n");
    REQUIRE(words[3] == "trivium");
    return run_ranks({{std::stoi(words[2]), {words.begin() + 4, words.end()}}}, folder.path());
}

void collect_keys(const json& from, const std::string& prefix, std::set<std::string>& keys)
{
    if (from.is_array())
        for (const json& one : from)
            collect_keys(one, prefix, keys);
    if (from.is_object())
        for (const auto& [key, value] : from.items()) {
            keys.insert(prefix + key);
            collect_keys(value, prefix + key + ".", keys);
        }
}

std::string listed(const std::set<std::string>& some, const std::set<std::string>& without)
{
    std::string text;
    for (const std::string& one : some)
        if (!without.contains(one))
            text += " " + one;
    return text;
}

/// Whether the parser refuses a text for its form, not for what it names.
bool is_error_of_form(const std::string& error)
{
    const char* const forms[] = {"expected '",           "expected a name",        "expected the name",
                                 "expected a part",      "expected a number",      "there is text after",
                                 "unknown keyword",      "is not an integer",      "no closing quote",
                                 "is not plain ASCII",   "there is no combiner",   "there is no element type",
                                 "ends within a region", "is not part of a graph", "there is no phase"};
    return std::any_of(std::begin(forms), std::end(forms),
                       [&](const char* form) { return error.find(form) != std::string::npos; });
}

/// What the parser says about a statement, with the values that it lacks defined before it; "": nothing.
std::string error_of(const std::string& statement, std::string& text)
{
    std::string before = "graph g\n";
    const std::size_t at = statement.find_first_not_of(" \t");
    if (statement.substr(at).starts_with("at")) // names the axes of a mesh
        before += "mesh" + statement.substr(at + 2) + "\n";
    for (int tries = 0;; ++tries) {
        text = before + statement + "\n";
        try {
            parse_graph(text, "t");
            return "";
        } catch (const UserError& error) {
            const std::string what = error.what();
            const std::size_t begin = what.find('%'), end = what.find(" is not defined above");
            if (end == std::string::npos || tries == 40)
                return what;
            before += "input " + what.substr(begin, end - begin) + " : f32[2]\n";
        }
    }
}

} // namespace

TEST_CASE("each graph of docs/graphs.md compiles for every rank, or is one of its wrong ones")
{
    int graphs = 0;
    for (const page::Block& block : page::read_blocks(page_path)) {
        if (block.kind != "graph")
            continue;
        INFO("docs/graphs.md:" << block.line << ": " << block.name);
        CHECK(block.name.ends_with(".graph"));
        ++graphs;
        if (is_wrong(block)) {
            CHECK_THROWS_AS(read_graph(block.text, block.name), UserError);
            continue;
        }
        const i64 ranks = read_graph(block.text, block.name).mesh.ranks();
        CHECK(ranks > 1);
        for (i64 rank = 0; rank < ranks; ++rank)
            CHECK_NOTHROW(compile_graph(block.text, block.name, Machine{}, rank));
    }
    CHECK(graphs >= 8);
}

TEST_CASE("each command of docs/graphs.md prints what the page shows")
{
    const Folder folder;
    write_graphs(folder);
    const std::vector<page::Command> commands = page::read_commands(page::read_blocks(page_path));
    CHECK(commands.size() >= 10);
    for (const page::Command& command : commands) {
        const Outcome outcome = run_command(command, folder);
        std::string file;
        for (const std::string& word : command.words)
            if (word.ends_with(".graph"))
                file = word;
        INFO("docs/graphs.md:" << command.line << ": " << file);
        CHECK((outcome.status == (file.starts_with("wrong") ? 2 : 0)));
        const std::string printed = outcome.status == 0 ? outcome.out : outcome.err;
        CHECK(page::without_roundings(printed) == page::without_roundings(command.prints));
    }
}

TEST_CASE("the tables of docs/graphs.md name every key of the JSON")
{
    const Folder folder;
    write_graphs(folder);
    std::set<std::string> keys;
    for (const char* file : {"shardings.graph", "product.graph", "costly.graph"}) {
        const Outcome explained = run_program({"explain", file, "--json"}, folder.path());
        REQUIRE(explained.status == 0);
        const json all = json::parse(explained.out);
        for (const char* part : {"values", "collectives", "collective_totals", "warnings"})
            collect_keys(json{{part, all.at(part)}}, "", keys);
    }
    const Outcome run = run_program({"explain", "product.graph", "--run", "--json"}, folder.path());
    REQUIRE(run.status == 0);
    collect_keys(json::parse(run.out), "", keys);
    const std::vector<std::string> names = page::names_in_tables(page_path, "## JSON");
    const std::set<std::string> documented(names.begin(), names.end());
    CHECK(listed(keys, documented) == "");
    CHECK(listed(documented, keys) == "");
}

TEST_CASE("the parser accepts what the grammar of docs/graphs.md allows")
{
    std::string text;
    for (const page::Block& block : page::read_blocks(page_path))
        if (block.kind == "ebnf")
            text += block.text;
    const ebnf::Grammar grammar = ebnf::parse(text);
    CHECK((ebnf::tokens_of(grammar) ==
           std::vector<std::string>{"digits", "integer", "name", "newline", "real", "string", "word"}));
    const auto seed = soak::seed();
    std::mt19937_64 random(seed);
    const std::function<std::size_t(std::size_t)> draw = [&](std::size_t n) { return random() % n; };
    const auto one_of = [&](const std::vector<std::string>& words) { return words[draw(words.size())]; };
    const std::function<std::string(const std::string&)> token = [&](const std::string& name) -> std::string {
        if (name == "word")
            return draw(3) == 0 ? one_of({"a-b", "x'", "l.0<w>", "f32", "~@1", "|", "+?"}) + str(draw(100))
                                : one_of({"gelu", "add", "normal", "dims", "eps", "v", "host", "output"});
        if (name == "name")
            return one_of({"x", "data_2", "Y", "9", "_"});
        if (name == "digits")
            return one_of({"0", "1", "16"});
        if (name == "integer")
            return one_of({"0", "1", "2", "8", "-3"});
        if (name == "real")
            return one_of({"1.0", "-0.5", "1e-5"});
        if (name == "string")
            return one_of({"\"\"", "\"0 1\"", "\"m k, k n -> m n\"", "\"f32\"", "\"# {%}\""});
        return "\n";
    };
    int accepted = 0;
    constexpr int drawn = 4000;
    for (int i = 0; i < drawn; ++i) {
        const std::string statement = ebnf::derive(grammar, "statement", token, draw);
        std::string whole;
        const std::string error = error_of(statement, whole);
        accepted += error.empty();
        INFO("seed " << seed << "\n" << whole << error);
        REQUIRE_FALSE(is_error_of_form(error));
    }
    INFO(accepted << " of " << drawn << " accepted, the others name what is not there");
    CHECK(accepted > drawn / 5);
}
