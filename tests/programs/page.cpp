#include "page.hpp"

#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace trivium::page {

namespace {

std::vector<std::string> lines_of_page(const std::string& path)
{
    std::ifstream in(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);)
        lines.push_back(line);
    if (lines.empty())
        throw std::runtime_error("cannot read " + path);
    return lines;
}

} // namespace

std::vector<Block> read_blocks(const std::string& path)
{
    std::vector<Block> blocks;
    bool within = false;
    int number = 0;
    for (const std::string& line : lines_of_page(path)) {
        ++number;
        if (!line.starts_with("```")) {
            if (within)
                blocks.back().text += line + "\n";
            continue;
        }
        within = !within;
        if (!within)
            continue;
        std::istringstream words(line.substr(3));
        Block& block = blocks.emplace_back();
        words >> block.kind >> block.name;
        block.line = number;
    }
    return blocks;
}

std::vector<Command> read_commands(const std::vector<Block>& blocks)
{
    std::vector<Command> commands;
    for (const Block& block : blocks) {
        if (block.kind != "console")
            continue;
        std::istringstream in(block.text);
        int number = block.line;
        for (std::string line; std::getline(in, line);) {
            ++number;
            if (!line.starts_with("$ ")) {
                commands.back().prints += line + "\n";
                continue;
            }
            Command& command = commands.emplace_back();
            command.line = number;
            std::istringstream words(line.substr(2));
            for (std::string word; words >> word;)
                command.words.push_back(word);
        }
    }
    return commands;
}

std::vector<std::string> names_in_tables(const std::string& path, const std::string& heading)
{
    std::vector<std::string> names;
    bool within = false;
    for (const std::string& line : lines_of_page(path)) {
        if (line.starts_with("## "))
            within = line == heading;
        if (!within || !line.starts_with("| "))
            continue;
        const std::string cell = line.substr(0, line.find('|', 1));
        const std::regex name("`([^`]+)`");
        for (auto at = std::sregex_iterator(cell.begin(), cell.end(), name); at != std::sregex_iterator();
             ++at)
            names.push_back((*at)[1]);
    }
    return names;
}

std::string without_roundings(const std::string& text)
{
    return std::regex_replace(text, std::regex("[0-9.]+e-[0-9]+"), "~");
}

} // namespace trivium::page
