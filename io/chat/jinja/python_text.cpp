#include "io/chat/jinja/python_text.hpp"

#include "base/check.hpp"
#include "io/chat/jinja/operations.hpp"
#include "io/chat/jinja/unicode.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace trivium::jinja {

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

namespace {

void append_hex(std::string& out, const char* prefix, unsigned value, int digits)
{
    char text[16];
    std::snprintf(text, sizeof text, "%s%0*x", prefix, digits, value);
    out += text;
}

std::string text_repr(std::string_view text)
{
    const char quote =
        text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
    std::string out(1, quote);
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = at;
        const char32_t c = next_character(text, at);
        if (c == '\\' || c == static_cast<char32_t>(quote))
            (out += '\\') += static_cast<char>(c);
        else if (c == '\n')
            out += "\\n";
        else if (c == '\r')
            out += "\\r";
        else if (c == '\t')
            out += "\\t";
        else if (is_printable(c))
            out += text.substr(begin, at - begin);
        else if (c < 0x100)
            append_hex(out, "\\x", c, 2);
        else if (c < 0x10000)
            append_hex(out, "\\u", c, 4);
        else
            append_hex(out, "\\U", c, 8);
    }
    return out + quote;
}

void append_repr(MarkedText& out, const Value& value)
{
    if (value.is_text()) {
        const std::size_t at = out.size();
        out.append(value.as_text().safe ? "Markup(" + text_repr(value.text()) + ")"
                                        : text_repr(value.text()));
        if (!value.marked().marks().empty()) {
            const Mark& mark = value.marked().marks().front();
            out.mark(at, out.size(), mark.kind, mark.message);
        }
    } else if (const List* list = value.list()) {
        if (list->kind == List::Kind::range)
            return out.append(std::string_view(list->label));
        if (list->kind == List::Kind::iterator)
            return out.append("<generator object>");
        const bool round = list->is_tuple();
        out.append(list->kind == List::Kind::view ? list->label + "([" : round ? "(" : "[");
        for (std::size_t i = 0; i < list->items.size(); ++i) {
            if (i != 0)
                out.append(", ");
            append_repr(out, list->items[i]);
        }
        if (round && list->items.size() == 1)
            out.append(",");
        out.append(list->kind == List::Kind::view ? "])" : round ? ")" : "]");
    } else if (const Dict* dict = value.dict()) {
        out.append("{");
        for (std::size_t i = 0; i < dict->items.size(); ++i) {
            if (i != 0)
                out.append(", ");
            append_repr(out, dict->items[i].first);
            out.append(": ");
            append_repr(out, dict->items[i].second);
        }
        out.append("}");
    } else if (value.is_undefined()) {
        out.append("Undefined");
    } else if (value.is_none()) {
        out.append("None");
    } else if (value.is_bool()) {
        out.append(value.as_bool() ? "True" : "False");
    } else if (value.is_int()) {
        out.append(std::to_string(value.as_int()));
    } else if (value.is_float()) {
        out.append(float_text(value.as_float()));
    } else {
        out.append(str("<", value.type_name(), ">"));
    }
}

} // namespace

MarkedText to_text(const Value& value)
{
    if (value.is_text())
        return value.marked();
    MarkedText out;
    if (!value.is_undefined())
        append_repr(out, value);
    return out;
}

std::string repr(const Value& value)
{
    MarkedText out;
    append_repr(out, value);
    return out.text();
}

namespace {

std::string json_string(std::string_view text, bool ascii)
{
    std::string out = "\"";
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = at;
        const char32_t c = next_character(text, at);
        switch (c) {
        case '"': out += "\\\""; break;
        case '\\': out += "\\\\"; break;
        case '\n': out += "\\n"; break;
        case '\r': out += "\\r"; break;
        case '\t': out += "\\t"; break;
        case '\f': out += "\\f"; break;
        case '\b': out += "\\b"; break;
        default:
            if (c < 0x20 || (ascii && c >= 0x7f && c < 0x10000)) {
                if (c == 0x7f)
                    out += static_cast<char>(c);
                else
                    append_hex(out, "\\u", c, 4);
            } else if (ascii && c >= 0x10000) {
                append_hex(out, "\\u", 0xd800 + ((c - 0x10000) >> 10), 4);
                append_hex(out, "\\u", 0xdc00 + ((c - 0x10000) & 0x3ff), 4);
            } else {
                out += text.substr(begin, at - begin);
            }
        }
    }
    return out + '"';
}

std::string json_float(double value)
{
    if (std::isnan(value))
        return "NaN";
    if (std::isinf(value))
        return value < 0 ? "-Infinity" : "Infinity";
    return float_text(value);
}

class JsonWriter {
public:
    JsonWriter(MarkedText& out, const JsonStyle& style) : out_(out), style_(style) {}

    void write(const Value& value)
    {
        if (value.is_text())
            write_text(value);
        else if (value.is_none())
            out_.append("null");
        else if (value.is_bool())
            out_.append(value.as_bool() ? "true" : "false");
        else if (value.is_int())
            out_.append(std::to_string(value.as_int()));
        else if (value.is_float())
            out_.append(json_float(value.as_float()));
        else if (const List* list = value.list();
                 list != nullptr && (list->kind == List::Kind::list || list->is_tuple()))
            write_list(*list);
        else if (const Dict* dict = value.dict())
            write_dict(*dict);
        else
            throw Failure{str("Object of type ", value.type_name(), " is not JSON serializable")};
    }

private:
    void write_text(const Value& value)
    {
        const std::size_t at = out_.size();
        out_.append(json_string(value.text(), style_.ascii));
        for (const Mark& mark : value.marked().marks())
            if (mark.kind == Mark::Kind::words)
                return out_.mark(at + 1, out_.size() - 1, mark.kind, mark.message);
    }
    void break_line()
    {
        if (!style_.indent)
            return;
        out_.append("\n");
        for (int i = 0; i < level_; ++i)
            out_.append(std::string_view(*style_.indent));
    }
    void begin_item(std::size_t i)
    {
        if (i != 0)
            out_.append(std::string_view(style_.item_separator));
        break_line();
    }
    void write_list(const List& list)
    {
        if (list.items.empty())
            return out_.append("[]");
        out_.append("[");
        ++level_;
        for (std::size_t i = 0; i < list.items.size(); ++i) {
            begin_item(i);
            write(list.items[i]);
        }
        --level_;
        break_line();
        out_.append("]");
    }
    void write_dict(const Dict& dict)
    {
        if (dict.items.empty())
            return out_.append("{}");
        std::vector<const std::pair<Value, Value>*> items;
        for (const auto& item : dict.items)
            items.push_back(&item);
        if (style_.sort_keys)
            std::stable_sort(items.begin(), items.end(),
                             [](const auto* a, const auto* b) { return ordered("<", a->first, b->first); });
        out_.append("{");
        ++level_;
        for (std::size_t i = 0; i < items.size(); ++i) {
            begin_item(i);
            write_key(items[i]->first);
            out_.append(std::string_view(style_.key_separator));
            write(items[i]->second);
        }
        --level_;
        break_line();
        out_.append("}");
    }
    void write_key(const Value& key)
    {
        if (key.is_text())
            return write_text(key);
        if (!key.is_none() && !key.is_number())
            throw Failure{str("keys must be str, int, float, bool or None, not ", key.type_name())};
        out_.append("\"");
        write(key);
        out_.append("\"");
    }

    MarkedText& out_;
    const JsonStyle& style_;
    int level_ = 0;
};

} // namespace

MarkedText to_json(const Value& value, const JsonStyle& style)
{
    MarkedText out;
    JsonWriter(out, style).write(value);
    return out;
}

std::optional<i64> parsed_int(std::string_view text, int base)
{
    const auto [begin, end] = stripped(text, true, true);
    std::string digits;
    bool negative = false;
    for (std::size_t at = begin; at < end; ++at) {
        const char c = text[at];
        if (at == begin && (c == '+' || c == '-'))
            negative = c == '-';
        else if (c != '_' || at == begin || at + 1 == end || text[at - 1] == '_')
            digits += c;
    }
    if (digits.size() > 2 && digits[0] == '0' && (base == 16 || base == 8 || base == 2 || base == 0)) {
        const char letter = static_cast<char>(digits[1] | 0x20);
        const int stated = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
        if (stated != 0 && (base == 0 || base == stated)) {
            base = stated;
            digits.erase(0, 2);
        }
    }
    i64 value = 0;
    if (digits.empty() || digits[0] == '-')
        return std::nullopt;
    const auto read =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, base == 0 ? 10 : base);
    if (read.ec == std::errc::result_out_of_range)
        throw Failure{"the integer " + digits + " does not fit 64 bits"};
    if (read.ec != std::errc() || read.ptr != digits.data() + digits.size())
        return std::nullopt;
    return negative ? -value : value;
}

std::optional<double> parsed_float(std::string_view text)
{
    const auto [begin, end] = stripped(text, true, true);
    std::string digits(text.substr(begin, end - begin));
    std::erase(digits, '_');
    const std::size_t sign = digits.starts_with('+') ? 1 : 0;
    std::string lower = to_lower(digits.substr(sign));
    if (lower.empty() || (sign == 1 && lower[0] == '-') || lower.find('(') != std::string::npos)
        return std::nullopt;
    double value = 0;
    const auto read = std::from_chars(lower.data(), lower.data() + lower.size(), value);
    if (read.ptr != lower.data() + lower.size())
        return std::nullopt;
    if (read.ec == std::errc::result_out_of_range)
        return std::strtod(lower.c_str(), nullptr);
    return read.ec == std::errc() ? std::optional(value) : std::nullopt;
}

} // namespace trivium::jinja
