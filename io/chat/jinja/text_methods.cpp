#include "io/chat/jinja/text_methods.hpp"

#include "base/check.hpp"
#include "io/chat/jinja/methods.hpp"
#include "io/chat/jinja/operations.hpp"
#include "io/chat/jinja/python_text.hpp"
#include "io/chat/jinja/unicode.hpp"

#include <algorithm>
#include <map>

namespace trivium::jinja {

namespace {

using TextMethod = Value (*)(const Value& self, const std::string& name, const Arguments& arguments);

/// A part of `self`.
Value part_of(const Value& self, std::size_t begin, std::size_t end)
{
    return {self.marked().part(begin, end), self.as_text().safe};
}

Value strip(const Value& self, const std::string& name, const Arguments& arguments)
{
    const Parameters given(name, arguments, {"chars"});
    const std::optional<std::string> characters =
        given.has(0) ? std::optional(given.text(0, "")) : std::nullopt;
    spend(self.text().size() / 16);
    const auto [begin, end] = stripped(self.text(), name != "rstrip", name != "lstrip", characters);
    return part_of(self, begin, end);
}

Value split_at_spaces(const Value& self, i64 most, bool from_right)
{
    const std::string& text = self.text();
    std::vector<Value> parts;
    std::size_t begin = 0, end = text.size();
    const auto strip_both = [&](bool left, bool right) {
        const auto [from, to] = stripped(std::string_view(text).substr(begin, end - begin), left, right);
        end = begin + to;
        begin += from;
    };
    strip_both(!from_right, from_right);
    while (begin < end) {
        if (most >= 0 && static_cast<i64>(parts.size()) >= most) {
            parts.push_back(part_of(self, begin, end));
            break;
        }
        std::size_t at = from_right ? end : begin;
        // The word at this end.
        if (from_right) {
            while (at > begin) {
                std::size_t last = at - 1;
                while (last > begin && (text[last] & 0xc0) == 0x80)
                    --last;
                std::size_t behind = last;
                if (is_space(next_character(text, behind)))
                    break;
                at = last;
            }
            parts.push_back(part_of(self, at, end));
            end = at;
        } else {
            while (at < end) {
                std::size_t next = at;
                if (is_space(next_character(text, next)))
                    break;
                at = next;
            }
            parts.push_back(part_of(self, begin, at));
            begin = at;
        }
        strip_both(!from_right, from_right);
    }
    if (from_right)
        std::reverse(parts.begin(), parts.end());
    return make_list(std::move(parts));
}

Value split(const Value& self, const std::string& name, const Arguments& arguments)
{
    const Parameters given(name, arguments, {"sep", "maxsplit"});
    const i64 most = given.integer(1, -1);
    const bool from_right = name == "rsplit";
    spend(self.text().size() / 16);
    if (!given.has(0))
        return split_at_spaces(self, most, from_right);
    const std::string separator = given.text(0, ""), &text = self.text();
    if (separator.empty())
        throw Failure{"empty separator"};
    std::vector<Value> parts;
    const auto more = [&] { return most < 0 || static_cast<i64>(parts.size()) < most; };
    if (from_right) {
        std::size_t end = text.size();
        while (more() && end >= separator.size()) {
            const std::size_t at = text.rfind(separator, end - separator.size());
            if (at == std::string::npos)
                break;
            parts.push_back(part_of(self, at + separator.size(), end));
            end = at;
        }
        parts.push_back(part_of(self, 0, end));
        std::reverse(parts.begin(), parts.end());
        return make_list(std::move(parts));
    }
    std::size_t begin = 0;
    for (std::size_t at; more() && (at = text.find(separator, begin)) != std::string::npos;
         begin = at + separator.size())
        parts.push_back(part_of(self, begin, at));
    parts.push_back(part_of(self, begin, text.size()));
    return make_list(std::move(parts));
}

Value partition(const Value& self, const std::string& name, const Arguments& arguments)
{
    const std::string separator = Parameters(name, arguments, {"sep"}, 1).text(0, "");
    if (separator.empty())
        throw Failure{"empty separator"};
    const bool last = name == "rpartition";
    const std::size_t at = last ? self.text().rfind(separator) : self.text().find(separator);
    if (at == std::string::npos)
        return last ? make_tuple({"", "", self}) : make_tuple({self, "", ""});
    return make_tuple(
        {part_of(self, 0, at), separator, part_of(self, at + separator.size(), self.text().size())});
}

/// The bytes [begin, end) that the arguments `start` and `stop` of a method say, in characters; nullopt if
/// none can be.
std::optional<std::pair<std::size_t, std::size_t>> searched(const Value& self, const Parameters& given)
{
    const i64 size = length(self);
    const auto bound = [&](std::size_t i, i64 open) {
        const i64 at = given.has(i) ? given.integer(i, 0) : open;
        return at < 0 ? std::max(at + size, i64{0}) : at;
    };
    const i64 from = bound(1, 0), to = std::min(bound(2, size), size);
    if (from > to)
        return std::nullopt;
    return std::pair(offset_of_character(self.text(), from), offset_of_character(self.text(), to));
}

Value find(const Value& self, const std::string& name, const Arguments& arguments)
{
    const Parameters given(name, arguments, {"sub", "start", "end"}, 1);
    const std::string part = given.text(0, "");
    const auto range = searched(self, given);
    spend(self.text().size() / 16);
    std::size_t at = std::string::npos;
    if (range) {
        const std::string_view text = std::string_view(self.text()).substr(0, range->second);
        if (name[0] == 'r') {
            at = text.rfind(part);
            if (at != std::string::npos && at < range->first)
                at = std::string::npos;
        } else {
            at = text.find(part, range->first);
        }
    }
    if (at == std::string::npos && name.ends_with("index"))
        throw Failure{"substring not found"};
    return at == std::string::npos ? i64{-1} : count_characters(std::string_view(self.text()).substr(0, at));
}

Value count(const Value& self, const std::string& name, const Arguments& arguments)
{
    const Parameters given(name, arguments, {"sub", "start", "end"}, 1);
    const std::string part = given.text(0, "");
    const auto range = searched(self, given);
    if (!range)
        return i64{0};
    const std::string_view text =
        std::string_view(self.text()).substr(range->first, range->second - range->first);
    if (part.empty())
        return count_characters(text) + 1;
    spend(text.size() / 16);
    i64 found = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size())
        ++found;
    return found;
}

Value begins_or_ends(const Value& self, const std::string& name, const Arguments& arguments)
{
    const Parameters given(name, arguments, {"prefix", "start", "end"}, 1);
    const auto range = searched(self, given);
    const auto fits = [&](const Value& part) {
        if (!part.is_text())
            throw Failure{str(name, " first arg must be str or a tuple of str, not ", part.type_name())};
        if (!range)
            return false;
        const std::string_view text =
            std::string_view(self.text()).substr(range->first, range->second - range->first);
        return name[0] == 's' ? text.starts_with(part.text()) : text.ends_with(part.text());
    };
    if (const List* list = given[0]->list(); list != nullptr && list->is_tuple())
        return std::any_of(list->items.begin(), list->items.end(), fits);
    return fits(*given[0]);
}

Value replace(const Value& self, const std::string& name, const Arguments& arguments)
{
    const Parameters given(name, arguments, {"old", "new", "count"}, 2);
    const std::string old = given.text(0, "");
    given.text(1, "");
    return replaced(self, old, *given[1], given.integer(2, -1));
}

Value without_affix(const Value& self, const std::string& name, const Arguments& arguments)
{
    const std::string affix = Parameters(name, arguments, {"affix"}, 1).text(0, "");
    const std::size_t size = self.text().size();
    if (name == "removeprefix")
        return self.text().starts_with(affix) ? part_of(self, affix.size(), size) : self;
    return self.text().ends_with(affix) ? part_of(self, 0, size - affix.size()) : self;
}

Value changed_case(const Value& self, const std::string& name, const Arguments& arguments)
{
    Parameters(name, arguments, {});
    spend(self.text().size() / 4);
    const std::string& text = self.text();
    return {self.marked().with_text(name == "upper"        ? to_upper(text)
                                    : name == "capitalize" ? to_capitalized(text)
                                    : name == "title"      ? to_title(text)
                                    : name == "swapcase"   ? swapped_case(text)
                                                           : to_lower(text)),
            self.as_text().safe};
}

template <bool (*Is)(char32_t)>
Value all_are(const Value& self, const std::string& name, const Arguments& arguments)
{
    Parameters(name, arguments, {});
    spend(self.text().size() / 4);
    for (std::size_t at = 0; at < self.text().size();)
        if (!Is(next_character(self.text(), at)))
            return false;
    return !self.text().empty() || name == "isascii" || name == "isprintable";
}

bool is_alphanumeric(char32_t c) { return is_letter(c) || is_numeric(c); }
bool is_ascii(char32_t c) { return c < 0x80; }

Value is_case(const Value& self, const std::string& name, const Arguments& arguments)
{
    Parameters(name, arguments, {});
    spend(self.text().size() / 4);
    bool any = false, in_word = false;
    for (std::size_t at = 0; at < self.text().size();) {
        const char32_t c = next_character(self.text(), at);
        const bool upper = is_upper(c) || is_title(c), lower = is_lower(c);
        if (name == "istitle" ? (in_word ? upper : lower) : name == "isupper" ? lower || is_title(c) : upper)
            return false;
        in_word = upper || lower;
        any |= in_word;
    }
    return any;
}

Value is_identifier(const Value& self, const std::string& name, const Arguments& arguments)
{
    Parameters(name, arguments, {});
    bool first = true;
    for (std::size_t at = 0; at < self.text().size(); first = false) {
        const char32_t c = next_character(self.text(), at);
        if (c != '_' && !is_letter(c) && (first || !is_decimal(c)))
            return false;
    }
    return !first;
}

Value join(const Value& self, const std::string& name, const Arguments& arguments)
{
    return joined(self, elements(*Parameters(name, arguments, {"iterable"}, 1)[0]));
}

Value lines(const Value& self, const std::string& name, const Arguments& arguments)
{
    return make_list(split_lines(self, Parameters(name, arguments, {"keepends"}).truth_of(0, false)));
}

Value pad(const Value& self, const std::string& name, const Arguments& arguments)
{
    const Parameters given(name, arguments, {"width", "fillchar"}, 1);
    return padded(self, given.integer(0, 0), name != "ljust", name != "rjust", given.text(1, " "));
}

Value zero_fill(const Value& self, const std::string& name, const Arguments& arguments)
{
    const i64 width = Parameters(name, arguments, {"width"}, 1).integer(0, 0);
    const std::size_t sign = self.text().starts_with('+') || self.text().starts_with('-') ? 1 : 0;
    MarkedText text = self.marked().part(0, sign);
    text.append(
        padded(part_of(self, sign, self.text().size()), width - static_cast<i64>(sign), true, false, "0")
            .marked());
    return text;
}

Value expand_tabs(const Value& self, const std::string& name, const Arguments& arguments)
{
    const i64 size = Parameters(name, arguments, {"tabsize"}).integer(0, 8);
    MarkedText text;
    i64 column = 0;
    for (const Value& character : elements(self)) {
        if (character.text() == "\t") {
            const i64 spaces = size > 0 ? size - column % size : 0;
            spend_on_text(text.size(), static_cast<std::size_t>(spaces));
            text.append(std::string(static_cast<std::size_t>(spaces), ' '));
            column += spaces;
        } else {
            text.append(character.marked());
            column = character.text() == "\n" || character.text() == "\r" ? 0 : column + 1;
        }
    }
    return text;
}

Value format(const Value& self, const std::string&, const Arguments& arguments)
{
    return brace_format(self, arguments);
}

const std::map<std::string, TextMethod, std::less<>> text_methods{
    {"capitalize", changed_case},
    {"casefold", changed_case},
    {"center", pad},
    {"count", count},
    {"endswith", begins_or_ends},
    {"expandtabs", expand_tabs},
    {"find", find},
    {"format", format},
    {"index", find},
    {"isalnum", all_are<is_alphanumeric>},
    {"isalpha", all_are<is_letter>},
    {"isascii", all_are<is_ascii>},
    {"isdecimal", all_are<is_decimal>},
    {"isdigit", all_are<is_digit>},
    {"isidentifier", is_identifier},
    {"islower", is_case},
    {"isnumeric", all_are<is_numeric>},
    {"isprintable", all_are<is_printable>},
    {"isspace", all_are<is_space>},
    {"istitle", is_case},
    {"isupper", is_case},
    {"join", join},
    {"ljust", pad},
    {"lower", changed_case},
    {"lstrip", strip},
    {"partition", partition},
    {"removeprefix", without_affix},
    {"removesuffix", without_affix},
    {"replace", replace},
    {"rfind", find},
    {"rindex", find},
    {"rjust", pad},
    {"rpartition", partition},
    {"rsplit", split},
    {"rstrip", strip},
    {"split", split},
    {"splitlines", lines},
    {"startswith", begins_or_ends},
    {"strip", strip},
    {"swapcase", changed_case},
    {"title", changed_case},
    {"upper", changed_case},
    {"zfill", zero_fill},
};

} // namespace

bool is_text_method(std::string_view name)
{
    return text_methods.contains(name) || name == "encode" || name == "format_map" || name == "translate";
}

Value text_method(const Value& self, const std::string& name, const Arguments& arguments)
{
    const auto found = text_methods.find(name);
    if (found == text_methods.end())
        throw Failure{str("the method str.", name, "() is not supported")};
    return found->second(self, name, arguments);
}

Value replaced(const Value& self, const std::string& old, const Value& by, i64 count)
{
    const MarkedText& text = self.marked();
    const MarkedText& substitute = by.marked();
    spend(text.size() / 16);
    MarkedText result;
    std::size_t begin = 0;
    if (old.empty()) { // in front of each character, and at the end
        for (std::size_t at = 0; count != 0 && at <= text.size(); --count) {
            result.append(substitute);
            begin = at;
            if (at == text.size())
                break;
            next_character(text.text(), at);
            result.append(text.part(begin, at));
            begin = at;
        }
    } else {
        for (std::size_t at; count != 0 && (at = text.text().find(old, begin)) != std::string::npos;
             --count) {
            result.append(text.part(begin, at));
            result.append(substitute);
            begin = at + old.size();
        }
    }
    result.append(text.part(begin, text.size()));
    return {std::move(result), self.as_text().safe};
}

Value joined(const Value& separator, const std::vector<Value>& parts)
{
    MarkedText result;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (!parts[i].is_text())
            throw Failure{
                str("sequence item ", i, ": expected str instance, ", parts[i].type_name(), " found")};
        if (i != 0)
            result.append(separator.marked());
        result.append(parts[i].marked());
    }
    return {std::move(result), separator.as_text().safe};
}

std::vector<Value> split_lines(const Value& self, bool keep_ends)
{
    const std::string& text = self.text();
    spend(text.size() / 8);
    std::vector<Value> all;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = at;
        const char32_t c = next_character(text, at);
        const bool ends =
            (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
        if (!ends)
            continue;
        if (c == '\r' && at < text.size() && text[at] == '\n')
            ++at;
        all.push_back(part_of(self, begin, keep_ends ? at : end));
        begin = at;
    }
    if (begin < text.size())
        all.push_back(part_of(self, begin, text.size()));
    return all;
}

Value padded(const Value& self, i64 width, bool left, bool right, const std::string& fill)
{
    if (count_characters(fill) != 1)
        throw Failure{"The fill character must be exactly one character long"};
    const i64 missing = width - length(self);
    if (missing <= 0)
        return self;
    // Python's center() puts the odd space to the left if the width is odd.
    const i64 before = !left ? 0 : !right ? missing : missing / 2 + (missing & width & 1);
    const MarkedText filled = arithmetic("*", Value(fill), missing).marked();
    MarkedText text = filled.part(0, static_cast<std::size_t>(before) * fill.size());
    text.append(self.marked());
    text.append(filled.part(static_cast<std::size_t>(before) * fill.size(), filled.size()));
    return text;
}

} // namespace trivium::jinja
