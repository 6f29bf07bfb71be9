// Methods of texts, lists and dicts.
#include "base/check.hpp"
#include "io/chat/jinja/functions.hpp"
#include "io/chat/jinja/operations.hpp"
#include "io/chat/jinja/python_text.hpp"

#include <algorithm>
#include <map>

namespace trivium::jinja {

namespace {

using Name = std::string_view;
using TextMethod = Value (*)(const Value& self, Name name, const Arguments& arguments);

/// A part of `self`.
Value part_of(const Value& self, std::size_t begin, std::size_t end)
{
    return {self.marked().part(begin, end), self.as_text().safe};
}

Value strip(const Value& self, Name name, const Arguments& arguments)
{
    const Parameters given(name, arguments, {"chars"});
    const std::optional<std::string> characters =
        given.has(0) ? std::optional(given.text(0, "")) : std::nullopt;
    const auto [begin, end] = stripped(self.text(), name != "rstrip", name != "lstrip", characters);
    return part_of(self, begin, end);
}

Value split_at_spaces(const Value& self, i64 most)
{
    const std::string& text = self.text();
    std::vector<Value> parts;
    std::size_t begin = stripped(text, true, false).first;
    while (begin < text.size()) {
        std::size_t end = begin;
        for (std::size_t next = begin; next < text.size(); end = next)
            if (is_space(next_character(text, next)))
                break;
        if (most >= 0 && static_cast<i64>(parts.size()) >= most)
            end = text.size();
        parts.push_back(part_of(self, begin, end));
        begin = end + stripped(std::string_view(text).substr(end), true, false).first;
    }
    return make_list(std::move(parts));
}

Value split(const Value& self, Name name, const Arguments& arguments)
{
    const Parameters given(name, arguments, {"sep", "maxsplit"});
    const i64 most = given.integer(1, -1);
    const bool from_right = name == "rsplit";
    if (!given.has(0)) {
        if (from_right && most >= 0)
            throw Failure{"rsplit() at white space with a maxsplit is not supported"};
        return split_at_spaces(self, most);
    }
    const std::string separator = given.text(0, ""), &text = self.text();
    if (separator.empty())
        throw Failure{"empty separator"};
    std::vector<std::size_t> found;
    const auto more = [&] { return most < 0 || static_cast<i64>(found.size()) < most; };
    if (from_right) {
        for (std::size_t at = text.size(); more() && at >= separator.size(); found.push_back(at))
            if ((at = text.rfind(separator, at - separator.size())) == std::string::npos)
                break;
        std::reverse(found.begin(), found.end());
    } else {
        for (std::size_t at = 0; more() && (at = text.find(separator, at)) != std::string::npos;
             at += separator.size())
            found.push_back(at);
    }
    std::vector<Value> parts;
    std::size_t begin = 0;
    for (const std::size_t at : found) {
        parts.push_back(part_of(self, begin, at));
        begin = at + separator.size();
    }
    parts.push_back(part_of(self, begin, text.size()));
    return make_list(std::move(parts));
}

Value partition(const Value& self, Name name, const Arguments& arguments)
{
    const std::string separator = Parameters(name, arguments, {"sep"}, 1).text(0, "");
    if (separator.empty())
        throw Failure{"empty separator"};
    const bool last = name == "rpartition";
    const std::size_t at = last ? self.text().rfind(separator) : self.text().find(separator);
    std::vector<Value> parts{self, "", ""};
    if (at != std::string::npos)
        parts = {part_of(self, 0, at), separator, part_of(self, at + separator.size(), self.text().size())};
    else if (last)
        std::reverse(parts.begin(), parts.end());
    return make_list(std::move(parts), List::Kind::tuple);
}

Value find(const Value& self, Name name, const Arguments& arguments)
{
    const std::string part = Parameters(name, arguments, {"sub"}, 1).text(0, "");
    const std::size_t at = name[0] == 'r' ? self.text().rfind(part) : self.text().find(part);
    return at == std::string::npos ? i64{-1} : count_characters(std::string_view(self.text()).substr(0, at));
}

Value begins_or_ends(const Value& self, Name name, const Arguments& arguments)
{
    const Parameters given(name, arguments, {"prefix"}, 1);
    const auto fits = [&](const Value& part) {
        if (!part.is_text())
            throw Failure{str(name, " first arg must be str or a tuple of str, not ", part.type_name())};
        return name[0] == 's' ? self.text().starts_with(part.text()) : self.text().ends_with(part.text());
    };
    if (const List* list = given[0]->list(); list != nullptr && list->kind == List::Kind::tuple)
        return std::any_of(list->items.begin(), list->items.end(), fits);
    return fits(*given[0]);
}

Value replace(const Value& self, Name name, const Arguments& arguments)
{
    const Parameters given(name, arguments, {"old", "new", "count"}, 2);
    const std::string old = given.text(0, "");
    if (old.empty())
        throw Failure{"replacing an empty text is not supported"};
    given.text(1, "");
    const MarkedText& text = self.marked();
    MarkedText result;
    std::size_t begin = 0;
    i64 count = given.has(2) ? given.integer(2, -1) : -1;
    for (std::size_t at; count != 0 && (at = text.text().find(old, begin)) != std::string::npos; --count) {
        result.append(text.part(begin, at));
        result.append(given[1]->marked());
        begin = at + old.size();
    }
    result.append(text.part(begin, text.size()));
    return {std::move(result), self.as_text().safe};
}

Value without_affix(const Value& self, Name name, const Arguments& arguments)
{
    const std::string affix = Parameters(name, arguments, {"affix"}, 1).text(0, "");
    const std::size_t size = self.text().size();
    if (name == "removeprefix")
        return self.text().starts_with(affix) ? part_of(self, affix.size(), size) : self;
    return self.text().ends_with(affix) ? part_of(self, 0, size - affix.size()) : self;
}

Value changed_case(const Value& self, Name name, const Arguments& arguments)
{
    Parameters(name, arguments, {});
    const std::string& text = self.text();
    return {self.marked().with_text(name == "upper"   ? to_upper(text)
                                    : name == "lower" ? to_lower(text)
                                    : name == "title"
                                        ? with_capitals(text, [](char32_t c) { return !is_cased(c); })
                                        : with_capitals(text, [](char32_t c) { return c == 0; })),
            self.as_text().safe};
}

Value join(const Value& self, Name name, const Arguments& arguments)
{
    MarkedText result;
    bool first = true;
    for (const Value& part : elements(*Parameters(name, arguments, {"iterable"}, 1)[0])) {
        if (!part.is_text())
            throw Failure{str("join() of type '", part.type_name(), "': expected str")};
        if (!std::exchange(first, false))
            result.append(self.marked());
        result.append(part.marked());
    }
    return {std::move(result), self.as_text().safe};
}

Value lines(const Value& self, Name name, const Arguments& arguments)
{
    return make_list(split_lines(self, Parameters(name, arguments, {"keepends"}).truth_of(0, false)));
}

const std::map<std::string, TextMethod, std::less<>> text_methods{
    {"capitalize", changed_case},
    {"endswith", begins_or_ends},
    {"find", find},
    {"format", [](const Value& self, Name, const Arguments& a) { return brace_format(self, a); }},
    {"join", join},
    {"lower", changed_case},
    {"lstrip", strip},
    {"partition", partition},
    {"removeprefix", without_affix},
    {"removesuffix", without_affix},
    {"replace", replace},
    {"rfind", find},
    {"rpartition", partition},
    {"rsplit", split},
    {"rstrip", strip},
    {"split", split},
    {"splitlines", lines},
    {"startswith", begins_or_ends},
    {"strip", strip},
    {"title", changed_case},
    {"upper", changed_case},
};

/// Methods of Python that the sandbox forbids, or that are not supported.
constexpr std::string_view other_text_methods =
    " casefold center count encode expandtabs format_map index isalnum isalpha isascii isdecimal isdigit "
    "isidentifier islower isnumeric "
    "isprintable isspace "
    "istitle isupper ljust maketrans rindex rjust swapcase translate zfill ";
constexpr std::string_view other_list_methods =
    " append count index clear extend insert pop remove reverse sort copy ";
constexpr std::string_view other_dict_methods = " clear pop popitem setdefault update fromkeys copy ";

bool is_among(std::string_view names, const std::string& name)
{
    return names.find(" " + name + " ") != std::string_view::npos;
}

Value dict_method(const Value& self, Name name, const Arguments& arguments)
{
    const Dict& dict = *self.dict();
    if (name == "get") {
        const Parameters given(name, arguments, {"key", "default"}, 1);
        require_key(*given[0]);
        const Value* found = dict.find(*given[0]);
        return found != nullptr ? *found : given[1] != nullptr ? *given[1] : Value();
    }
    Parameters(name, arguments, {});
    std::vector<Value> all;
    for (const auto& [key, value] : dict.items)
        all.push_back(name == "keys"     ? key
                      : name == "values" ? value
                                         : make_list({key, value}, List::Kind::tuple));
    return make_list(std::move(all), List::Kind::view);
}

} // namespace

Value text_method(const Value& self, std::string_view name, const Arguments& arguments)
{
    spend(self.text().size() / 4);
    return text_methods.find(name)->second(self, name, arguments);
}

std::optional<Value> method_of(const Value& value, const std::string& name)
{
    const bool is_text = value.is_text(), is_dict = value.dict() != nullptr;
    const bool is_list = value.list() != nullptr && value.list()->is_plain();
    if ((is_text && is_among(other_text_methods, name)) || (is_list && is_among(other_list_methods, name)) ||
        (is_dict && is_among(other_dict_methods, name)))
        return Value::undefined(str("access to attribute '", name, "' of '", value.type_name(),
                                    "' object is unsafe, or not supported"));
    if (!(is_text && text_methods.contains(name)) && !(is_dict && is_among(" get items keys values ", name)))
        return std::nullopt;
    const auto method = is_text ? text_method : dict_method;
    return make_function(
        [value, name, method](Evaluator&, const Arguments& given) { return method(value, name, given); },
        value.depth());
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

} // namespace trivium::jinja
