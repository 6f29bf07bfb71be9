#include "ir/text/repeat.hpp"

#include "base/check.hpp"
#include "ir/limits.hpp"
#include "ir/text/text_cursor.hpp"

#include <algorithm>
#include <cctype>
#include <vector>

namespace trivium {

namespace {

/// Without comment and blanks around it.
std::string_view trimmed(std::string_view line)
{
    constexpr std::string_view blanks = " \t\r";
    line = line.substr(0, line.find('#'));
    const std::size_t first = std::min(line.find_first_not_of(blanks), line.size());
    line.remove_prefix(first);
    return line.substr(0, line.find_last_not_of(blanks) + 1);
}

bool opens_repeat(std::string_view line)
{
    constexpr std::string_view keyword = "repeat";
    const std::string_view text = trimmed(line);
    return text.starts_with(keyword) && text.size() > keyword.size() &&
           (text[keyword.size()] == ' ' || text[keyword.size()] == '\t');
}

class Lines {
public:
    Lines(std::string_view text, const std::string& file, const NamedSizes& sizes,
          const std::function<void(std::string_view, int)>& read)
        : file_(file), sizes_(sizes), read_(read)
    {
        for (std::size_t begin = 0; begin < text.size();) {
            const std::size_t end = std::min(text.find('\n', begin), text.size());
            lines_.push_back(text.substr(begin, end - begin));
            begin = end + 1;
        }
    }

    void run() { run(0, lines_.size()); }

private:
    std::string place(std::size_t line) const { return str(file_, ":", line + 1); }

    void run(std::size_t begin, std::size_t end)
    {
        for (std::size_t i = begin; i < end; ++i)
            if (opens_repeat(lines_[i]))
                i = repeat(i, end);
            else
                give(i);
    }

    /// Returns the line of the closing brace.
    std::size_t repeat(std::size_t line, std::size_t end)
    {
        const std::string header = replaced(line);
        const Meanings meanings{sizes_};
        Cursor c(header, file_, static_cast<int>(line) + 1, meanings);
        c.take("repeat");
        const std::string name = c.word();
        if (std::ranges::any_of(name, [](char ch) { return !is_of_name(ch); }))
            c.fail(str("'", name, "' is not the name of an index"), "use letters, digits and '_'");
        if (indices_.contains(name))
            c.fail(str("the index '", name, "' is that of a repeat around this one"), "rename it");
        constexpr i64 most = 10'000;
        const i64 count = c.whole(0, most);
        c.want("{");
        if (!c.done())
            c.fail("there is text after '{'", "write each statement on a line of its own");
        std::size_t close = line + 1;
        for (int depth = 1; close < end; ++close) {
            const std::string_view text = trimmed(lines_[close]);
            depth += text.ends_with('{') ? 1 : text == "}" ? -1 : 0;
            if (depth == 0)
                break;
        }
        if (close == end)
            throw UserError(
                {place(line), "ends within a repeat", "its '{' has no '}'", "close it with a line '}'"});
        for (i64 i = 0; i < count; ++i) {
            indices_[name] = i;
            run(line + 1, close);
        }
        indices_.erase(name);
        return close;
    }

    void give(std::size_t line)
    {
        const int number = static_cast<int>(line) + 1;
        if (indices_.empty())
            return read_(lines_[line].find("${") == std::string_view::npos ? lines_[line] : replaced(line),
                         number);
        if (++repeated_ > 4 * max_text_ops)
            throw UserError({place(line), str("the repeats have more than ", 4 * max_text_ops, " lines"), "",
                             "use a smaller graph"});
        read_(replaced(line), number);
    }

    static bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

    /// The line with numbers in place of indices.
    std::string replaced(std::size_t line) const
    {
        const std::string_view text = lines_[line];
        std::string made;
        made.reserve(text.size());
        for (std::size_t at = 0; at < text.size();) {
            if (text[at] == '#')
                return made += text.substr(at);
            const bool braces = text.substr(at + 1, 1) == "{";
            if (text[at] != '$' || (indices_.empty() && !braces)) {
                made += text[at++];
                continue;
            }
            const std::size_t begin = at + (braces ? 2 : 1);
            std::size_t end = begin;
            while (end < text.size() && (braces ? text[end] != '}' : is_of_name(text[end])))
                ++end;
            const std::string_view what = text.substr(begin, end - begin);
            if (what.empty() || (braces && end == text.size()) || (!braces && !indices_.contains(what)))
                throw UserError({str(place(line), ":", at + 1), str("'$", what, "' is not an index"), "",
                                 "write $NAME, or ${NAME+1}, with the name of a repeat around it"});
            if (const auto index = indices_.find(what); index != indices_.end() && !sizes_.contains(what))
                made += std::to_string(index->second); // the usual case
            else {
                NamedSizes known = sizes_;
                known.insert(indices_.begin(), indices_.end());
                made += evaluated(what, known, str(place(line), ":", at + 1));
            }
            at = end + (braces ? 1 : 0);
        }
        return made;
    }

    const std::string& file_;
    const NamedSizes& sizes_;
    const std::function<void(std::string_view, int)>& read_;
    std::vector<std::string_view> lines_;
    NamedSizes indices_;
    std::size_t repeated_ = 0;
};

} // namespace

void each_line(std::string_view text, const std::string& file, const NamedSizes& sizes,
               const std::function<void(std::string_view, int)>& read)
{
    Lines(text, file, sizes, read).run();
}

} // namespace trivium
