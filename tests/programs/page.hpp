#pragma once
// A page of docs/ whose blocks are tested.
#include <string>
#include <vector>

namespace trivium::page {

/// What stands between two lines "```".
struct Block {
    std::string kind, name; ///< "```graph product.graph"
    std::string text;
    int line = 0;
};
std::vector<Block> read_blocks(const std::string& path);

/// "$ trivium explain …" in a block of kind `console`, with what it prints.
struct Command {
    std::vector<std::string> words;
    std::string prints;
    int line = 0;
};
std::vector<Command> read_commands(const std::vector<Block>& blocks);

/// The names in the first columns of all tables of the section with this heading: `a`, `b.c`.
std::vector<std::string> names_in_tables(const std::string& path, const std::string& heading);

/// Numbers like 2.3e-06, which depend on the machine, become "~".
std::string without_roundings(const std::string& text);

} // namespace trivium::page
