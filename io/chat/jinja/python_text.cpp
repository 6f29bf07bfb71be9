#include "io/chat/jinja/python_text.hpp"

#include "base/check.hpp"
#include "io/chat/jinja/operations.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace trivium::jinja {

namespace {

std::string float_text(double value)
{
    if (std::isnan(value))
        return "nan";
    if (std::isinf(value))
        return value < 0 ? "-inf" : "inf";
    // The shortest digits that read back as this number: "-d.ddde-dd".
    char digits[40];
    const auto written = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific);
    const std::string_view text(digits, static_cast<std::size_t>(written.ptr - digits));
    const std::size_t e = text.find('e');
    int exponent = 0;
    const bool below_one = text[e + 1] == '-';
    std::from_chars(text.data() + e + 2, text.data() + text.size(), exponent);
    if (below_one)
        exponent = -exponent;
    if (exponent < -4 || exponent >= 16)
        return str(text.substr(0, e), below_one ? "e-" : "e+", std::abs(exponent) < 10 ? "0" : "",
                   std::abs(exponent));
    char plain[400];
    const auto fixed = std::to_chars(plain, plain + sizeof plain, value, std::chars_format::fixed);
    std::string result(plain, fixed.ptr);
    return result.find('.') == std::string::npos ? result + ".0" : result;
}

void append_hex(std::string& out, const char* prefix, unsigned value, int digits)
{
    char text[16];
    std::snprintf(text, sizeof text, "%s%0*x", prefix, digits, value);
    out += text;
}

void append_escape(std::string& out, char32_t c, bool json)
{
    if (json && (c == '\b' || c == '\f')) {
        (out += '\\') += c == '\b' ? 'b' : 'f';
    } else if (json && c >= 0x10000) {
        append_hex(out, "\\u", 0xd800 + ((c - 0x10000) >> 10), 4);
        append_hex(out, "\\u", 0xdc00 + ((c - 0x10000) & 0x3ff), 4);
    } else if (json || c >= 0x100) {
        append_hex(out, c < 0x10000 ? "\\u" : "\\U", c, c < 0x10000 ? 4 : 8);
    } else {
        append_hex(out, "\\x", c, 2);
    }
}

/// A text within quotes.
std::string quoted(std::string_view text, const TextStyle& style)
{
    const bool has_single = text.find('\'') != std::string_view::npos,
               has_double = text.find('"') != std::string_view::npos;
    const char quote = style.json || (has_single && !has_double) ? '"' : '\'';
    std::string out(1, quote);
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = at;
        const char32_t c = next_character(text, at);
        if (c == '\\' || c == static_cast<char32_t>(quote))
            (out += '\\') += static_cast<char>(c);
        else if (c == '\n' || c == '\r' || c == '\t')
            (out += '\\') += c == '\n' ? 'n' : c == '\r' ? 'r' : 't';
        else if (style.json ? c >= 0x20 && !(style.ascii && c > 0x7f) : is_printable(c))
            out += text.substr(begin, at - begin);
        else
            append_escape(out, c, style.json);
    }
    return out + quote;
}

class Writer {
public:
    explicit Writer(const TextStyle& style) : style_(style) {}

    MarkedText run(const Value& value)
    {
        write(value);
        return std::move(out_);
    }

private:
    void write(const Value& value)
    {
        const bool json = style_.json;
        if (value.is_text())
            write_text(value);
        else if (const List* list = value.list(); list != nullptr && list->is_plain())
            write_list(*list);
        else if (const Dict* dict = value.dict())
            write_dict(*dict);
        else if (value.is_none())
            out_.append(json ? "null" : "None");
        else if (value.is_bool())
            out_.append(value.as_bool() ? json ? "true" : "True" : json ? "false" : "False");
        else if (value.is_int())
            out_.append(std::to_string(value.as_int()));
        else if (value.is_float() && (!json || std::isfinite(value.as_float())))
            out_.append(float_text(value.as_float()));
        else if (value.is_undefined() && !json)
            out_.append("Undefined");
        else
            throw Failure{str(json ? "writing JSON" : "printing", " of a value of type '", value.type_name(),
                              "' is not supported", value.list() != nullptr ? ": use the filter list" : "")};
    }
    void write_text(const Value& value)
    {
        const bool markup = value.as_text().safe && !style_.json;
        out_.append(markup ? "Markup(" : "");
        const std::size_t at = out_.size();
        out_.append(quoted(value.text(), style_));
        const std::vector<Mark>& marks = value.marked().marks();
        if (const auto words = std::find_if(marks.begin(), marks.end(),
                                            [](const Mark& mark) { return mark.kind == Mark::Kind::words; });
            words != marks.end())
            out_.mark(at + 1, out_.size() - 1, words->kind, words->message);
        out_.append(markup ? ")" : "");
    }
    void break_line()
    {
        if (!style_.indent)
            return;
        out_.append("\n");
        for (int i = 0; i < level_; ++i)
            out_.append(std::string_view(*style_.indent));
    }
    /// `write_item` of each between brackets.
    template <class Items, class WriteItem>
    void write_all(const char* begin, const Items& items, const char* end, const WriteItem& write_item)
    {
        out_.append(begin);
        ++level_;
        bool first = true;
        for (const auto& item : items) {
            if (!std::exchange(first, false))
                out_.append(std::string_view(style_.item_separator));
            break_line();
            write_item(item);
        }
        --level_;
        if (!items.empty())
            break_line();
        out_.append(end);
    }
    void write_list(const List& list)
    {
        const bool round = list.kind == List::Kind::tuple && !style_.json;
        write_all(round ? "(" : "[", list.items,
                  !round                   ? "]"
                  : list.items.size() == 1 ? ",)"
                                           : ")",
                  [&](const Value& item) { write(item); });
    }
    void write_dict(const Dict& dict)
    {
        std::vector<const std::pair<Value, Value>*> items;
        for (const auto& item : dict.items)
            items.push_back(&item);
        if (style_.sort_keys)
            std::stable_sort(items.begin(), items.end(),
                             [](const auto* a, const auto* b) { return compared("<", a->first, b->first); });
        write_all("{", items, "}", [&](const std::pair<Value, Value>* item) {
            const char* const quote = style_.json && !item->first.is_text() ? "\"" : "";
            out_.append(quote);
            write(item->first);
            out_.append(quote);
            out_.append(std::string_view(style_.key_separator));
            write(item->second);
        });
    }

    MarkedText out_;
    const TextStyle& style_;
    int level_ = 0;
};

} // namespace

MarkedText written(const Value& value, const TextStyle& style) { return Writer(style).run(value); }

MarkedText to_text(const Value& value)
{
    return value.is_text() ? value.marked() : value.is_undefined() ? MarkedText() : written(value, {});
}

std::string repr(const Value& value) { return written(value, {}).text(); }

namespace {

/// A number's text without white space around it and a leading +.
std::string_view digits_of(std::string_view text)
{
    const auto [begin, end] = stripped(text, true, true);
    text = text.substr(begin, end - begin);
    if (std::any_of(text.begin(), text.end(), [](char c) { return c == '_' || (c & 0x80) != 0; }))
        throw Failure{"numbers with _ or with digits of other scripts are not supported"};
    if (text.starts_with('+') && !text.starts_with("+-"))
        text.remove_prefix(1);
    return text;
}

template <class Number>
std::optional<Number> parsed(std::string_view text)
{
    const std::string_view digits = digits_of(text);
    Number value = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (read.ec == std::errc::invalid_argument || read.ptr != digits.data() + digits.size() ||
        digits.ends_with(')'))
        return std::nullopt;
    if (read.ec == std::errc::result_out_of_range)
        throw Failure{str("the number ", digits, " does not fit 64 bits")};
    return value;
}

} // namespace

std::optional<i64> parsed_int(std::string_view text) { return parsed<i64>(text); }
std::optional<double> parsed_float(std::string_view text) { return parsed<double>(text); }

Value percent_format(const Value& format, const Value& values)
{
    std::vector<Value> all{values};
    if (const List* list = values.list(); list != nullptr && list->kind == List::Kind::tuple)
        all = list->items;
    const std::string& text = format.text();
    MarkedText out;
    std::size_t used = 0, begin = 0;
    for (std::size_t at; (at = text.find('%', begin)) != std::string::npos;) {
        out.append(format.marked().part(begin, at));
        const char kind = at + 1 < text.size() ? text[at + 1] : '\0';
        begin = at + 2;
        if (kind == '%') {
            out.append("%");
            continue;
        }
        if (kind != 's' && kind != 'd')
            throw Failure{"in a format with % only %s, %d and %% are supported"};
        if (used == all.size())
            throw Failure{"not enough arguments for format string"};
        const Value& value = all[used++];
        if (kind == 'd' && !value.is_int())
            throw Failure{str("%d of a value of type '", value.type_name(), "' is not supported")};
        out.append(to_text(value));
    }
    if (used < all.size())
        throw Failure{"not all arguments converted during string formatting"};
    out.append(format.marked().part(begin, text.size()));
    return {std::move(out), format.as_text().safe};
}

Value brace_format(const Value& format, const Arguments& arguments)
{
    const std::string& text = format.text();
    MarkedText out;
    std::size_t begin = 0, used = 0;
    for (std::size_t at; (at = text.find_first_of("{}", begin)) != std::string::npos;) {
        out.append(format.marked().part(begin, at));
        if (text.compare(at, 2, "{{") == 0 || text.compare(at, 2, "}}") == 0) {
            out.append(std::string_view(text).substr(at, 1));
            begin = at + 2;
            continue;
        }
        const std::size_t end = text.find('}', at);
        if (text[at] == '}' || end == std::string::npos)
            throw Failure{"single '{' or '}' encountered in format string"};
        const std::string field = text.substr(at + 1, end - at - 1);
        begin = end + 1;
        if (!field.empty() || used == arguments.positional.size())
            throw Failure{
                str("format() has no argument for {", field, "}, or names it, which is not supported")};
        out.append(to_text(arguments.positional[used++]));
    }
    out.append(format.marked().part(begin, text.size()));
    return {std::move(out), format.as_text().safe};
}

} // namespace trivium::jinja
