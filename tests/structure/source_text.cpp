#include "source_text.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace trivium::structure {

namespace fs = std::filesystem;

namespace {

bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// End of the literal that opens at `at` (a quote), one past its closing quote.
std::size_t literal_end(std::string_view text, std::size_t at)
{
    const char quote = text[at];
    if (quote == '"' && at > 0 && text[at - 1] == 'R') {
        const std::size_t open = text.find('(', at);
        if (open == std::string_view::npos)
            return text.size();
        std::string close(1, ')');
        close.append(text.substr(at + 1, open - at - 1)).append(1, '"');
        const std::size_t end = text.find(close, open);
        return end == std::string_view::npos ? text.size() : end + close.size();
    }
    for (std::size_t i = at + 1; i < text.size() && text[i] != '\n'; ++i) {
        if (text[i] == '\\')
            ++i;
        else if (text[i] == quote)
            return i + 1;
    }
    return at + 1;
}

/// The text with comments blanked, and the insides of literals too if `literals`.
std::string blanked(std::string_view text, bool literals)
{
    std::string out(text);
    const auto blank = [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i)
            if (out[i] != '\n')
                out[i] = ' ';
    };
    for (std::size_t i = 0; i < text.size();) {
        if (text.substr(i, 2) == "//") {
            const std::size_t end = std::min(text.find('\n', i), text.size());
            blank(i, end);
            i = end;
        } else if (text.substr(i, 2) == "/*") {
            const std::size_t close = text.find("*/", i + 2);
            const std::size_t end = close == std::string_view::npos ? text.size() : close + 2;
            blank(i, end);
            i = end;
        } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !is_word_char(text[i - 1])))) {
            const std::size_t end = literal_end(text, i); // a quote after a digit separates thousands
            if (literals && end > i + 1)
                blank(i + 1, end - 1);
            i = end;
        } else {
            ++i;
        }
    }
    return out;
}

} // namespace

std::vector<SourceFile> read_sources(const std::string& root, const std::string& folder,
                                     const std::vector<std::string>& endings)
{
    std::vector<SourceFile> files;
    const fs::path base = fs::path(root) / folder;
    if (!fs::exists(base))
        return files;
    for (const auto& entry : fs::recursive_directory_iterator(base)) {
        const std::string name = entry.path().filename().string();
        const bool wanted = std::any_of(endings.begin(), endings.end(),
                                        [&](const std::string& e) { return name.ends_with(e); });
        if (!entry.is_regular_file() || !wanted)
            continue;
        std::ifstream in(entry.path(), std::ios::binary);
        std::ostringstream text;
        text << in.rdbuf();
        if (!in)
            throw std::runtime_error("cannot read " + entry.path().string());
        files.push_back({fs::relative(entry.path(), root).generic_string(), text.str()});
    }
    std::sort(files.begin(), files.end(),
              [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
    return files;
}

std::vector<std::string> lines_of(std::string_view text)
{
    std::vector<std::string> lines;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        lines.emplace_back(text.substr(0, end));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return lines;
}

std::string without_comments(std::string_view text) { return blanked(text, false); }

std::string without_literals(std::string_view text) { return blanked(text, true); }

bool has_word(std::string_view line, std::string_view word)
{
    for (std::size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
        const std::size_t end = at + word.size();
        if ((at == 0 || !is_word_char(line[at - 1])) && (end == line.size() || !is_word_char(line[end])))
            return true;
    }
    return false;
}

Findings containing(const std::vector<SourceFile>& files, const std::vector<std::string>& phrases)
{
    Findings findings;
    for (const SourceFile& file : files) {
        const std::vector<std::string> lines = lines_of(file.text);
        for (std::size_t i = 0; i < lines.size(); ++i)
            for (const std::string& phrase : phrases)
                if (has_word(lines[i], phrase))
                    findings.push_back(file.path + ":" + std::to_string(i + 1) + ": '" + phrase + "'");
    }
    return findings;
}

Findings types_defined_twice(const std::vector<SourceFile>& files)
{
    static const std::regex type("(?:struct|class|enum class) ([A-Za-z_0-9]+)[^;]*");
    static const std::regex space("namespace ([A-Za-z_0-9:]+) \\{");
    Findings findings;
    std::map<std::string, std::string> places;
    for (const SourceFile& file : files) {
        std::string in;
        const std::vector<std::string> lines = lines_of(without_comments(file.text));
        for (std::size_t i = 0; i < lines.size(); ++i) {
            std::smatch match;
            if (std::regex_match(lines[i], match, space))
                in = match[1];
            if (!std::regex_match(lines[i], match, type))
                continue;
            const std::string name = in + "::" + match[1].str();
            const auto [first, fresh] = places.emplace(name, file.path);
            if (!fresh && first->second != file.path) // not a specialization
                findings.push_back(file.path + ":" + std::to_string(i + 1) + ": " + first->second +
                                   " has a type " + name + ", too");
        }
    }
    return findings;
}

Findings too_long(const std::vector<SourceFile>& files, std::size_t most)
{
    Findings findings;
    for (const SourceFile& file : files)
        if (const std::size_t n = lines_of(file.text).size(); n > most)
            findings.push_back(file.path + ": " + std::to_string(n) + " lines, more than " +
                               std::to_string(most));
    return findings;
}

double conditionals_per_1000_lines(const std::vector<SourceFile>& files)
{
    std::size_t lines = 0, conditionals = 0;
    for (const SourceFile& file : files)
        for (const std::string& line : lines_of(without_comments(file.text))) {
            ++lines;
            const std::size_t hash = line.find_first_not_of(" \t");
            if (hash == std::string::npos || line[hash] != '#')
                continue;
            const std::size_t word = line.find_first_not_of(" \t", hash + 1);
            conditionals += word != std::string::npos && line.compare(word, 2, "if") == 0;
        }
    return lines == 0 ? 0 : 1000.0 * static_cast<double>(conditionals) / static_cast<double>(lines);
}

} // namespace trivium::structure
