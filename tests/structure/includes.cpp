#include "includes.hpp"

#include <map>
#include <regex>
#include <set>

namespace trivium::structure {

namespace {

/// Names behind `std::` and the header that defines each.
const std::map<std::string, std::string>& standard_names()
{
    static const std::map<std::string, std::string> names = [] {
        const std::map<std::string, std::string> by_header{
            {"algorithm",
             "sort stable_sort find_if any_of all_of none_of min_element max_element lower_bound "
             "upper_bound reverse clamp count_if copy_if transform equal rotate unique"},
            {"array", "array"},
            {"atomic", "atomic atomic_bool"},
            {"bit", "bit_cast bit_ceil popcount has_single_bit countr_zero"},
            {"charconv", "from_chars to_chars"},
            {"cmath", "sqrt exp pow log isfinite isnan ceil floor lround llround fabs"},
            {"condition_variable", "condition_variable"},
            {"cstring", "memcpy memset memcmp strerror"},
            {"deque", "deque"},
            {"exception", "exception_ptr current_exception rethrow_exception"},
            {"filesystem", "filesystem"},
            {"fstream", "ifstream ofstream"},
            {"functional", "function"},
            {"iostream", "cout cerr"},
            {"map", "map multimap"},
            {"memory", "unique_ptr make_unique shared_ptr make_shared weak_ptr"},
            {"mutex", "mutex lock_guard unique_lock scoped_lock once_flag call_once"},
            {"numeric", "accumulate iota gcd lcm"},
            {"optional", "optional nullopt"},
            {"regex", "regex smatch"},
            {"set", "set multiset"},
            {"span", "span as_bytes as_writable_bytes"},
            {"sstream", "ostringstream istringstream stringstream"},
            {"stdexcept", "runtime_error logic_error invalid_argument out_of_range"},
            {"string", "string to_string stoi stoul getline"},
            {"string_view", "string_view"},
            {"thread", "thread jthread this_thread"},
            {"tuple", "tuple tie"},
            {"unordered_map", "unordered_map"},
            {"unordered_set", "unordered_set"},
            {"variant", "variant visit holds_alternative get_if monostate"},
            {"vector", "vector"},
        };
        std::map<std::string, std::string> result;
        for (const auto& [header, text] : by_header)
            for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
                end = std::min(text.find(' ', at), text.size());
                result[text.substr(at, end - at)] = header;
            }
        return result;
    }();
    return names;
}

struct Includes {
    std::set<std::string> standard; ///< in angle brackets
    std::set<std::string> files;    ///< paths among the given files
};

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

bool is_header(const std::string& path) { return path.ends_with(".hpp"); }

/// The line with its string literals empty.
std::string without_quoted(const std::string& line)
{
    static const std::regex quoted("\"(?:[^\"\\\\]|\\\\.)*\"");
    return std::regex_replace(line, quoted, "\"\"");
}

class Sources {
public:
    Sources(const std::vector<SourceFile>& files, const std::vector<std::string>& places)
    {
        for (const SourceFile& file : files)
            for (const std::string& line : lines_of(without_comments(file.text)))
                lines[file.path].push_back(line.starts_with("#") ? line : without_quoted(line));
        static const std::regex include("^#include ([<\"])([^>\"]+)[>\"]");
        for (const auto& [path, text] : lines)
            for (const std::string& line : text)
                if (std::smatch m; line.starts_with("#include") && std::regex_search(line, m, include)) {
                    if (m[1] == "<")
                        direct[path].standard.insert(m[2]);
                    else
                        for (const std::string& file : found(m[2], folder_of(path), places))
                            direct[path].files.insert(file);
                }
    }

    /// What the file sees: its own includes and theirs, itself among the files.
    const Includes& seen(const std::string& path)
    {
        const auto [at, added] = closures.try_emplace(path);
        if (!added)
            return at->second;
        Includes all;
        std::vector<std::string> open{path};
        while (!open.empty()) {
            const std::string next = open.back();
            open.pop_back();
            if (!all.files.insert(next).second)
                continue;
            all.standard.insert(direct[next].standard.begin(), direct[next].standard.end());
            open.insert(open.end(), direct[next].files.begin(), direct[next].files.end());
        }
        return at->second = std::move(all);
    }

    std::map<std::string, std::vector<std::string>> lines;

private:
    /// Back-ends have headers of one name in several folders, of which a build takes one: all of them.
    std::vector<std::string> found(const std::string& name, const std::string& own,
                                   const std::vector<std::string>& places) const
    {
        std::vector<std::string> paths;
        if (lines.contains(own + name))
            return {own + name};
        for (const std::string& place : places)
            if (const std::string path = place + name; lines.contains(path))
                paths.push_back(path);
        return paths;
    }

    std::map<std::string, Includes> direct, closures;
};

/// Types that a line declares, at whatever depth, template parameters of any kind too.
std::vector<std::string> declared(const std::string& line)
{
    static const std::regex type(
        "\\b(?:struct|class|enum|using|typename|int|bool)(?: \\[\\[[a-z]+\\]\\]| alignas\\(.*\\)|\\.\\.\\.)? "
        "([A-Z][A-Za-z0-9]*)\\b");
    std::vector<std::string> types;
    for (std::sregex_iterator m(line.begin(), line.end(), type), end; m != end; ++m)
        types.push_back((*m)[1]);
    return types;
}

/// Whether the types of the line are defined there, at namespace scope.
bool defines(const std::string& line)
{
    return line.starts_with("using ") ||
           (!line.ends_with(";") &&
            (line.starts_with("struct ") || line.starts_with("class ") || line.starts_with("enum ")));
}

} // namespace

Findings check_self_contained(const std::vector<SourceFile>& files, const std::vector<std::string>& places)
{
    Sources all(files, places);
    std::map<std::string, std::set<std::string>> homes; // of types: the files that define them
    std::map<std::string, std::set<std::string>> known; // of files: the types that they define or declare
    for (const auto& [path, lines] : all.lines)
        for (const std::string& line : lines)
            for (const std::string& type : declared(line)) {
                known[path].insert(type);
                if (defines(line))
                    homes[type].insert(path);
            }

    Findings findings;
    static const std::regex standard("\\bstd::([a-z_]+)");
    static const std::regex own("(?:^|[^:.A-Za-z0-9_])([A-Z][A-Za-z0-9]*)\\b");
    for (const auto& [path, lines] : all.lines) {
        const Includes& seen = all.seen(path);
        std::set<std::string> told;
        for (std::size_t i = 0; i < lines.size(); ++i) {
            const auto missing = [&, &file = path](const std::string& name, const std::string& header) {
                if (told.insert(name).second)
                    findings.push_back(file + ":" + std::to_string(i + 1) + ": " + name + " without " +
                                       header);
            };
            for (std::sregex_iterator m(lines[i].begin(), lines[i].end(), standard), end; m != end; ++m)
                if (const auto at = standard_names().find((*m)[1]);
                    at != standard_names().end() && !seen.standard.contains(at->second))
                    missing("std::" + at->first, "<" + at->second + ">");
            for (std::sregex_iterator m(lines[i].begin(), lines[i].end(), own), end; m != end; ++m) {
                const auto home = homes.find((*m)[1]);
                if (home == homes.end() || home->second.size() != 1 || !is_header(*home->second.begin()))
                    continue;
                bool visible = false;
                for (const std::string& file : seen.files)
                    visible = visible || known[file].contains(home->first);
                if (!visible)
                    missing(home->first, *home->second.begin());
            }
        }
    }
    return findings;
}

} // namespace trivium::structure
