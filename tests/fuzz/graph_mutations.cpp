#include "graph_mutations.hpp"

#include "base/check.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"

#include <algorithm>
#include <regex>
#include <vector>

namespace trivium {

namespace {

using Random = std::mt19937_64;

struct Piece {
    std::size_t at = 0, length = 0;
};

/// Words, or lines with their ends.
std::vector<Piece> pieces_of(const std::string& text, const char* separators, bool with_end)
{
    std::vector<Piece> pieces;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
        const std::size_t length = end - at + (with_end && end < text.size() ? 1 : 0);
        if (length > 0)
            pieces.push_back({at, length});
        at = end + 1;
    }
    return pieces;
}

std::vector<Piece> words_of(const std::string& text)
{
    return pieces_of(text, " \n,()[]{}<>=\"%:|+?@", false);
}

/// From each `begin` to the next `end`, inclusive.
std::vector<Piece> between(const std::string& text, char begin, char end)
{
    std::vector<Piece> pieces;
    for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
        const std::size_t last = text.find_first_of(std::string{end, '\n'}, at);
        if (last != std::string::npos && text[last] == end)
            pieces.push_back({at, last - at + 1});
    }
    return pieces;
}

bool is_number(const std::string& word)
{
    return !word.empty() && word.size() < 19 &&
           std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<Piece> numbers_of(const std::string& text)
{
    std::vector<Piece> all = words_of(text);
    std::erase_if(all, [&](const Piece& p) { return !is_number(text.substr(p.at, p.length)); });
    return all;
}

template <class T>
const T& pick(const std::vector<T>& from, Random& random)
{
    return from[random() % from.size()];
}

std::string text_at(const std::string& text, const Piece& piece)
{
    return text.substr(piece.at, piece.length);
}

constexpr const char* numbers[] = {"0",
                                   "1",
                                   "2",
                                   "3",
                                   "4",
                                   "6",
                                   "8",
                                   "12",
                                   "-1",
                                   "64",
                                   "65536",
                                   "-3",
                                   "24",
                                   "9223372036854775807",
                                   "0.5",
                                   "1048576",
                                   "4294967296",
                                   "281474976710656",
                                   "5",
                                   "16",
                                   "-9223372036854775808",
                                   "1e999",
                                   "nan",
                                   "7"};

/// A number that is likely to fit what it replaces, or one that fits nothing.
std::string other_number(const std::string& old, const std::string& another, Random& random)
{
    if (!is_number(old) || random() % 3 == 0)
        return numbers[random() % std::size(numbers)];
    const i64 value = std::stoll(old), more = is_number(another) ? std::stoll(another) : 1;
    switch (random() % 6) {
    case 0: return std::to_string(value + 1);
    case 1: return std::to_string(std::max<i64>(value - 1, 0));
    case 2: return std::to_string(value % (i64{1} << 40) * 2);
    case 3: return std::to_string(value / 2);
    case 4: return another;
    default: return std::to_string(value % (i64{1} << 40) + more % (i64{1} << 40));
    }
}

/// One number, or every number that equals it.
void change_number(std::string& text, Random& random)
{
    const std::vector<Piece> all = numbers_of(text);
    if (all.empty())
        return;
    const Piece one = pick(all, random);
    const std::string old = text_at(text, one),
                      next = other_number(old, text_at(text, pick(all, random)), random);
    if (random() % 2 == 0) {
        text.replace(one.at, one.length, next);
        return;
    }
    for (std::size_t i = all.size(); i-- > 0;) // from the back, so that earlier positions stay valid
        if (text_at(text, all[i]) == old)
            text.replace(all[i].at, all[i].length, next);
}

/// The axes of the line `mesh`, with their sizes.
std::vector<std::pair<std::string, std::string>> mesh_of(const std::string& text)
{
    std::vector<std::pair<std::string, std::string>> axes;
    const std::size_t begin = text.rfind("mesh ", 0) == 0 ? 0 : text.find("\nmesh ") + 1;
    if (begin == 0 && text.rfind("mesh ", 0) != 0)
        return axes;
    const std::string line = text.substr(begin + 5, text.find('\n', begin) - begin - 5);
    for (const Piece& piece : pieces_of(line, " ", false)) {
        const std::string axis = text_at(line, piece);
        const std::size_t equals = std::min(axis.find('='), axis.size());
        axes.emplace_back(axis.substr(0, equals), axis.substr(std::min(equals + 1, axis.size())));
    }
    return axes;
}

std::string random_axis(const std::vector<std::pair<std::string, std::string>>& mesh, Random& random)
{
    if (mesh.empty() || random() % 40 == 0)
        return random() % 2 == 0 ? "world" : "ax";
    const auto& [name, size] = pick(mesh, random);
    if (random() % 4 != 0 || !is_number(size))
        return name;
    const i64 whole = std::max<i64>(std::stoll(size), 1), major = i64{1} << random() % 3,
              part = random() % 8 == 0
                         ? 3
                         : std::max<i64>(whole / major / (1 + static_cast<i64>(random() % 2)), 1);
    return name + ":(" + std::to_string(major) + ")" + std::to_string(part);
}

std::string random_sharding_text(std::size_t dims, const std::string& text, Random& random)
{
    auto mesh = mesh_of(text);
    std::shuffle(mesh.begin(), mesh.end(), random);
    const bool repeats = random() % 8 == 0; // then an axis may appear twice
    const auto axis = [&]() -> std::string {
        const std::string made = random_axis(mesh, random);
        if (!repeats)
            std::erase_if(mesh, [&](const auto& a) { return made.rfind(a.first, 0) == 0; });
        return made;
    };
    std::string made = "<";
    if (random() % 24 == 0)
        dims += random() % 2 == 0 ? 1 : dims > 0 ? std::size_t(-1) : 0;
    for (std::size_t d = 0; d < dims; ++d) {
        made += d > 0 ? "," : "";
        const auto count = mesh.empty() ? 0 : random() % 4 / 2 + random() % 6 / 5;
        for (std::size_t i = 0; i < count && !mesh.empty(); ++i)
            made += (i > 0 ? "+" : "") + axis();
        if (made.back() == '<' || made.back() == ',')
            made += "-";
        made += random() % 3 == 0 ? "?" : "";
        made += random() % 8 == 0 ? "@" + std::to_string(random() % 4) : "";
    }
    constexpr const char* endings[] = {":sum", ":max", ":product", ":replicated", ":lse", ":min"};
    for (bool first = true; random() % 5 == 0 && !mesh.empty(); first = false)
        made += (first ? "|" : " ") + axis() +
                (random() % 2 == 0 ? ":sum" : endings[random() % std::size(endings)]);
    return made + ">";
}

/// Another sharding after some type, or none.
void change_sharding(std::string& text, Random& random)
{
    std::vector<Piece> types = between(text, '[', ']');
    if (types.empty())
        return;
    const Piece type = pick(types, random);
    const std::string inside = text.substr(type.at + 1, type.length - 2);
    const std::size_t dims =
        inside.empty() ? 0 : static_cast<std::size_t>(std::count(inside.begin(), inside.end(), ',')) + 1;
    const std::size_t after = type.at + type.length;
    std::size_t begin = text.find_first_not_of(' ', after);
    if (begin != std::string::npos && text[begin] == '<') {
        const std::size_t end = std::min(text.find_first_of(">\n", begin), text.size() - 1);
        text.erase(after, end + (text[end] == '>' ? 1 : 0) - after);
        if (random() % 4 == 0)
            return;
    }
    text.insert(after, " " + random_sharding_text(dims, text, random));
}

void change_mesh(std::string& text, Random& random)
{
    auto mesh = mesh_of(text);
    switch (random() % 4) {
    case 0: mesh.emplace_back(random() % 2 == 0 ? "n" : "pipeline", "2"); break;
    case 1:
        if (!mesh.empty())
            mesh.erase(mesh.begin() + static_cast<std::ptrdiff_t>(random() % mesh.size()));
        break;
    default:
        if (!mesh.empty())
            mesh[random() % mesh.size()].second =
                random() % 8 == 0 ? numbers[random() % std::size(numbers)] : std::to_string(1 + random() % 6);
    }
    std::string line = "mesh";
    for (const auto& [name, size] : mesh)
        line += str(" ", name, "=", size);
    std::size_t begin = text.find("\nmesh ");
    if (begin == std::string::npos) {
        text.insert(std::min(text.find('\n'), text.size()), "\n" + line);
        return;
    }
    text.replace(begin + 1, std::min(text.find('\n', begin + 1), text.size()) - begin - 1, line);
}

/// An operand, or any other use of a value, becomes another value.
void change_value(std::string& text, Random& random)
{
    std::vector<Piece> uses;
    for (std::size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 1))
        uses.push_back({at, std::min(text.find_first_of(" \n,():=", at), text.size()) - at});
    if (uses.empty())
        return;
    const Piece from = pick(uses, random), to = pick(uses, random);
    text.replace(to.at, to.length, text_at(text, from));
}

void change_op(std::string& text, Random& random)
{
    static const std::vector<std::string> names = op_names();
    std::vector<Piece> ops;
    for (std::size_t at = text.find(" = "); at != std::string::npos; at = text.find(" = ", at + 1)) {
        const std::size_t end = text.find('(', at);
        if (end != std::string::npos)
            ops.push_back({at + 3, end - at - 3});
    }
    if (ops.empty())
        return;
    const Piece op = pick(ops, random);
    text.replace(op.at, op.length,
                 random() % 2 == 0 ? pick(names, random) : text_at(text, pick(ops, random)));
}

/// The attributes of two ops change places, or one attribute goes, or appears elsewhere.
void change_attributes(std::string& text, Random& random)
{
    const std::vector<Piece> lists = between(text, '{', '}');
    if (lists.empty())
        return;
    const Piece to = pick(lists, random), from = pick(lists, random);
    if (random() % 2 == 0) {
        text.replace(to.at, to.length, text_at(text, from));
        return;
    }
    const auto fields = [&](const Piece& list) {
        const std::string inside = text.substr(list.at + 1, list.length - 2);
        std::vector<std::string> all;
        static const std::regex field("[^=, ]+=(\"[^\"]*\"|[^, ]+)");
        for (std::sregex_iterator at(inside.begin(), inside.end(), field), end; at != end; ++at)
            all.push_back(at->str());
        return all;
    };
    std::vector<std::string> mine = fields(to);
    const std::vector<std::string> others = fields(from);
    if (!mine.empty() && random() % 2 == 0)
        mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(random() % mine.size()));
    if (!others.empty() && random() % 2 == 0)
        mine.push_back(pick(others, random));
    std::string made;
    for (const std::string& field : mine)
        made += (made.empty() ? "" : ", ") + field;
    text.replace(to.at, to.length, "{" + made + "}");
}

/// The content of two quoted strings.
void change_string(std::string& text, Random& random)
{
    std::vector<Piece> strings;
    bool inside = false;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < text.size(); ++i)
        if (text[i] == '"') {
            if (inside)
                strings.push_back({begin, i - begin});
            begin = i + 1;
            inside = !inside;
        }
    if (strings.empty())
        return;
    const Piece to = pick(strings, random);
    std::string other = text_at(text, random() % 2 == 0 ? pick(strings, random) : to);
    if (random() % 2 == 0 && !other.empty()) { // another order, or one entry less
        std::vector<Piece> words = pieces_of(other, " ", false);
        const Piece one = pick(words, random);
        other.erase(one.at, one.length + (one.at + one.length < other.size() ? 1 : 0));
        if (random() % 2 == 0)
            other += " " + std::to_string(random() % 4);
    }
    text.replace(to.at, to.length, other);
}

void change_lines(std::string& text, Random& random)
{
    const std::vector<Piece> lines = pieces_of(text, "\n", true);
    if (lines.empty())
        return;
    const Piece to = pick(lines, random), from = pick(lines, random);
    switch (random() % 4) {
    case 0: text.erase(to.at, to.length); break;
    case 1: text.insert(to.at, text_at(text, from)); break;
    case 2: text.replace(to.at, to.length, text_at(text, from)); break;
    default: text += "output %" + text_at(text, pick(words_of(text), random)) + "\n";
    }
}

void change_words(std::string& text, Random& random)
{
    const std::vector<Piece> words = words_of(text);
    if (words.empty())
        return;
    const Piece to = pick(words, random);
    text.replace(to.at, to.length, text_at(text, pick(words, random)));
}

void change(std::string& text, Random& random)
{
    switch (random() % 16) {
    case 0: return change_lines(text, random);
    case 1: return change_words(text, random);
    case 2:
    case 3:
    case 4: return change_number(text, random);
    case 5:
    case 6:
    case 7:
    case 8: return change_sharding(text, random);
    case 9: return change_mesh(text, random);
    case 10:
    case 11: return change_value(text, random);
    case 12: return change_op(text, random);
    case 13: return change_attributes(text, random);
    case 14: return change_string(text, random);
    default:
        if (!text.empty() && random() % 4 == 0)
            text[random() % text.size()] = static_cast<char>(random() % 256);
        else
            change_sharding(text, random);
    }
}

} // namespace

std::string mutate_graph(std::string text, std::mt19937_64& random)
{
    for (auto n = 1 + random() % 3; n > 0; --n)
        change(text, random);
    return random() % 2 == 0 ? with_inferred_types(std::move(text)) : text;
}

std::string with_inferred_types(std::string text)
{
    static const std::regex message(
        ":([0-9]+): .*: (%\\S+) is declared (\\S+\\]), but computed as (\\S+\\])");
    for (int tries = 0; tries < 32; ++tries) {
        try {
            const Graph graph = parse_graph(text, "t");
            verify(graph, graph.at.empty() ? Level::global : Level::local);
            return text;
        } catch (const UserError& error) {
            const std::string what = error.what();
            std::smatch match;
            if (!std::regex_search(what, match, message))
                return text;
            std::size_t at = 0;
            for (int line = std::stoi(match[1]); line > 1; --line)
                at = text.find('\n', at) + 1;
            const std::string declared = match[3];
            const std::size_t type = text.find(": " + declared, at);
            const std::size_t found = type != std::string::npos ? type + 2 : text.find(declared, at);
            if (found == std::string::npos || found > text.find('\n', at))
                return text;
            text.replace(found, declared.size(), match[4]);
        }
    }
    return text;
}

} // namespace trivium
