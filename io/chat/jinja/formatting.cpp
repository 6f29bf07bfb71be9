// `text % values` and text.format(…).
#include "base/check.hpp"
#include "io/chat/jinja/operations.hpp"
#include "io/chat/jinja/python_text.hpp"
#include "io/chat/jinja/text_methods.hpp"
#include "io/chat/jinja/unicode.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace trivium::jinja {

namespace {

/// How one value is printed: [fill]align sign # 0 width , .precision type
struct FormatSpec {
    std::string fill = " ";
    char align = 0; ///< '<', '>', '^', '='
    char sign = '-';
    bool alternate = false, thousands = false;
    i64 width = 0, precision = -1;
    char type = 0;
};

i64 read_number(std::string_view text, std::size_t& at)
{
    i64 number = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
        number = std::min<i64>(number * 10 + (text[at] - '0'), max_text);
    return number;
}

std::string with_commas(std::string digits)
{
    const std::size_t begin = digits.find_first_of("0123456789");
    std::size_t end = digits.find_first_not_of("0123456789", begin);
    if (end == std::string::npos)
        end = digits.size();
    for (std::size_t at = end; at > begin + 3;)
        digits.insert(at -= 3, ",");
    return digits;
}

std::string unsigned_integer(u64 value, char type, bool alternate)
{
    if (type != 'x' && type != 'X' && type != 'o' && type != 'b')
        return std::to_string(value);
    std::string digits;
    const unsigned base = type == 'o' ? 8 : type == 'b' ? 2 : 16;
    do
        digits.insert(digits.begin(), (type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[value % base]);
    while ((value /= base) != 0);
    return (alternate ? str('0', type) : "") + digits;
}

std::string unsigned_float(double value, const FormatSpec& spec)
{
    if (std::isnan(value) || std::isinf(value))
        return std::isnan(value) ? "nan" : "inf";
    const bool percent = spec.type == '%';
    const char type = percent ? 'f' : spec.type;
    char format[16];
    std::snprintf(format, sizeof format, "%%%s.*%c", spec.alternate ? "#" : "", type);
    const int precision = static_cast<int>(std::min<i64>(spec.precision < 0 ? 6 : spec.precision, 500));
    char digits[1000];
    std::snprintf(digits, sizeof digits, format, precision, percent ? value * 100 : value);
    return percent ? str(digits, '%') : digits;
}

MarkedText formatted_number(const Value& value, FormatSpec spec)
{
    std::string digits;
    bool below_zero = false;
    const bool as_float =
        spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
    if (value.is_float() || as_float) {
        const double number = value.number();
        below_zero = std::signbit(number);
        if (!as_float && spec.type != 0)
            throw Failure{str("Unknown format code '", spec.type, "' for object of type 'float'")};
        if (as_float) {
            digits = unsigned_float(std::abs(number), spec);
        } else if (spec.precision < 0) {
            digits = float_text(std::abs(number));
        } else {
            spec.type = 'g';
            digits = unsigned_float(std::abs(number), spec);
        }
    } else {
        const i64 number = *value.whole();
        below_zero = number < 0;
        digits = unsigned_integer(below_zero ? u64{0} - static_cast<u64>(number) : static_cast<u64>(number),
                                  spec.type, spec.alternate);
    }
    if (spec.thousands)
        digits = with_commas(digits);
    const std::string sign = below_zero ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
    if (spec.align == '=') {
        MarkedText text(sign);
        text.append(padded(Value(digits), spec.width - static_cast<i64>(sign.size()), true, false, spec.fill)
                        .marked());
        return text;
    }
    return padded(Value(sign + digits), spec.width, spec.align != '<', spec.align == '<' || spec.align == '^',
                  spec.fill)
        .marked();
}

MarkedText formatted_text(const Value& text, const FormatSpec& spec)
{
    const Value cut = spec.precision < 0 ? text : slice_of(text, {}, spec.precision, {});
    return padded(cut, spec.width, spec.align == '>' || spec.align == '^', spec.align != '>', spec.fill)
        .marked();
}

/// The value as format(value, spec) prints it.
MarkedText formatted(const Value& value, std::string_view text)
{
    if (text.empty())
        return to_text(value);
    FormatSpec spec;
    std::size_t at = 0, behind = 0;
    next_character(text, behind);
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    if (behind < text.size() && is_align(text[behind])) {
        spec.fill = text.substr(0, behind);
        spec.align = text[behind];
        at = behind + 1;
    } else if (is_align(text[0])) {
        spec.align = text[at++];
    }
    const auto here = [&] { return at < text.size() ? text[at] : '\0'; };
    if (here() == '+' || here() == '-' || here() == ' ')
        spec.sign = text[at++];
    if (here() == '#')
        spec.alternate = ++at > 0;
    if (here() == '0') {
        ++at;
        if (spec.align == 0) {
            spec.fill = "0";
            spec.align = value.is_number() ? '=' : '<';
        }
    }
    spec.width = read_number(text, at);
    if (here() == ',')
        spec.thousands = ++at > 0;
    if (here() == '.') {
        ++at;
        spec.precision = read_number(text, at);
    }
    if (at < text.size())
        spec.type = text[at++];
    if (at != text.size())
        throw Failure{str("Invalid format specifier '", text, "'")};
    if (value.is_number() && !(value.is_bool() && spec.type == 0) && spec.type != 's') {
        if (spec.type == 'd')
            spec.type = value.is_float() ? 'd' : '\0';
        return formatted_number(value, spec);
    }
    if (!value.is_text() && !value.is_bool())
        throw Failure{str("unsupported format string passed to ", value.type_name(), ".__format__")};
    if (spec.type != 0 && spec.type != 's')
        throw Failure{
            str("Unknown format code '", spec.type, "' for object of type '", value.type_name(), "'")};
    return formatted_text(value.is_text() ? value : Value(to_text(value)), spec);
}

/// The values of `%`, one after the other or by name.
class PercentValues {
public:
    explicit PercentValues(const Value& values) : values_(values)
    {
        const List* list = values.list();
        tuple_ = list != nullptr && list->is_tuple() ? list : nullptr;
    }
    Value next()
    {
        if (tuple_ == nullptr ? next_ > 0 : next_ >= tuple_->items.size())
            throw Failure{"not enough arguments for format string"};
        ++next_;
        return tuple_ == nullptr ? values_ : tuple_->items[next_ - 1];
    }
    Value named(const std::string& name)
    {
        const Value* found =
            values_.dict() == nullptr ? nullptr : values_.dict()->find(std::string_view(name));
        if (found == nullptr)
            throw Failure{values_.dict() == nullptr ? "format requires a mapping"
                                                    : str("there is no '", name, "'")};
        by_name_ = true;
        return *found;
    }
    void finish() const
    {
        const bool left = tuple_ != nullptr
                              ? next_ < tuple_->items.size()
                              : next_ == 0 && !by_name_ && values_.dict() == nullptr &&
                                    (values_.list() == nullptr || values_.list()->kind != List::Kind::list);
        if (left)
            throw Failure{"not all arguments converted during string formatting"};
    }

private:
    const Value& values_;
    const List* tuple_ = nullptr;
    std::size_t next_ = 0;
    bool by_name_ = false;
};

MarkedText percent_value(const Value& value, FormatSpec spec)
{
    if (spec.align == '<')
        spec.fill = " "; // "-" goes before "0"
    switch (spec.type) {
    case 's': return formatted_text(Value(to_text(value)), spec);
    case 'r':
    case 'a': return formatted_text(Value(repr(value)), spec);
    case 'c':
        return formatted_text(value.is_text() ? value : Value([&] {
                                  std::string character;
                                  append_character(character,
                                                   static_cast<char32_t>(value.whole().value_or(0xfffd)));
                                  return character;
                              }()),
                              spec);
    default: break;
    }
    if (std::string_view("diuxXoeEfFgG").find(spec.type) == std::string_view::npos)
        throw Failure{str("unsupported format character '", spec.type, "'")};
    if (value.is_undefined())
        throw Failure{value.as_undefined().why};
    if (!value.is_number())
        throw Failure{str("%", spec.type, " format: a real number is required, not ", value.type_name())};
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (decimal)
        spec.type = 0;
    if (decimal && value.is_float()) {
        if (!(std::abs(value.as_float()) < 9e18))
            throw Failure{"cannot convert this float to an integer of 64 bits"};
        return formatted_number(static_cast<i64>(value.as_float()), spec);
    }
    return formatted_number(value, spec);
}

} // namespace

Value percent_format(const Value& format, const Value& values)
{
    const MarkedText& text = format.marked();
    const std::string& bytes = text.text();
    PercentValues given(values);
    MarkedText out;
    std::size_t begin = 0;
    for (std::size_t at; (at = bytes.find('%', begin)) != std::string::npos;) {
        out.append(text.part(begin, at++));
        std::optional<Value> value;
        if (at < bytes.size() && bytes[at] == '(') {
            const std::size_t end = bytes.find(')', at);
            if (end == std::string::npos)
                throw Failure{"incomplete format key"};
            value = given.named(bytes.substr(at + 1, end - at - 1));
            at = end + 1;
        }
        FormatSpec spec;
        spec.align = '>';
        for (; at < bytes.size() && std::string_view("-+ #0").find(bytes[at]) != std::string_view::npos;
             ++at) {
            switch (bytes[at]) {
            case '-': spec.align = '<'; break;
            case '#': spec.alternate = true; break;
            case '0': spec.fill = "0"; break;
            default: spec.sign = spec.sign == '+' ? '+' : bytes[at];
            }
        }
        const auto number = [&] {
            if (at >= bytes.size() || bytes[at] != '*')
                return read_number(bytes, at);
            ++at;
            const Value stated = given.next();
            if (!stated.whole())
                throw Failure{"* wants int"};
            if (*stated.whole() < 0)
                spec.align = '<';
            return std::min<i64>(std::abs(std::max(*stated.whole(), -i64{max_text})), max_text);
        };
        spec.width = number();
        if (at < bytes.size() && bytes[at] == '.') {
            ++at;
            spec.precision = number();
        }
        if (at >= bytes.size())
            throw Failure{"incomplete format"};
        spec.type = bytes[at++];
        begin = at;
        if (spec.type == '%') {
            out.append("%");
            continue;
        }
        const bool is_text = spec.type == 's' || spec.type == 'r' || spec.type == 'c';
        if (is_text)
            spec.fill = " ";
        else if (spec.fill == "0" && spec.align == '>')
            spec.align = '=';
        out.append(percent_value(value ? *value : given.next(), spec));
    }
    out.append(text.part(begin, text.size()));
    given.finish();
    return {std::move(out), format.as_text().safe};
}

namespace {

class BraceFormatter {
public:
    BraceFormatter(const Value& format, const Arguments& arguments)
        : text_(format.marked()), arguments_(arguments)
    {
    }

    MarkedText run()
    {
        const std::string& bytes = text_.text();
        MarkedText out;
        std::size_t begin = 0;
        for (std::size_t at = 0; at < bytes.size();) {
            const char c = bytes[at];
            if (c != '{' && c != '}') {
                ++at;
                continue;
            }
            out.append(text_.part(begin, at));
            if (at + 1 < bytes.size() && bytes[at + 1] == c) {
                out.append(std::string_view(&c, 1));
                at += 2;
            } else if (c == '}') {
                throw Failure{"Single '}' encountered in format string"};
            } else {
                const std::size_t end = end_of_field(at);
                out.append(field(bytes.substr(at + 1, end - at - 1)));
                at = end + 1;
            }
            begin = at;
        }
        out.append(text_.part(begin, bytes.size()));
        return out;
    }

private:
    /// Of the field that begins at `at`; fields may be nested in its format.
    std::size_t end_of_field(std::size_t at) const
    {
        const std::string& bytes = text_.text();
        int open = 0;
        for (; at < bytes.size(); ++at) {
            open += bytes[at] == '{' ? 1 : bytes[at] == '}' ? -1 : 0;
            if (open == 0)
                return at;
        }
        throw Failure{"expected '}' before end of string"};
    }

    MarkedText field(const std::string& text)
    {
        std::size_t end = 0;
        for (bool in_brackets = false;
             end < text.size() && (in_brackets || (text[end] != '!' && text[end] != ':')); ++end)
            in_brackets = in_brackets ? text[end] != ']' : text[end] == '[';
        Value value = named(text.substr(0, end));
        if (end < text.size() && text[end] == '!') {
            const char conversion = end + 1 < text.size() ? text[end + 1] : '\0';
            if (conversion != 's' && conversion != 'r')
                throw Failure{"unknown conversion specifier in format string"};
            value = conversion == 's' ? Value(to_text(value)) : Value(repr(value));
            end += 2;
        }
        if (end < text.size() && text[end] != ':')
            throw Failure{"expected ':' after conversion specifier"};
        std::string spec = end < text.size() ? text.substr(end + 1) : "";
        if (spec.find('{') != std::string::npos) {
            if (++depth_ > 1)
                throw Failure{"Max string recursion exceeded"};
            const Value inner(spec);
            BraceFormatter nested(inner, arguments_);
            nested.next_ = next_;
            nested.depth_ = depth_;
            spec = nested.run().text();
            next_ = nested.next_;
            --depth_;
        }
        return formatted(value, spec);
    }

    Value named(const std::string& text)
    {
        const std::size_t end = std::min(text.find_first_of(".["), text.size());
        const std::string name = text.substr(0, end);
        Value value;
        if (name.empty() ||
            std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) {
            const i64 index = name.empty() ? next_++ : parsed_int(name).value_or(0);
            if (index >= static_cast<i64>(arguments_.positional.size()))
                throw Failure{str("Replacement index ", index, " out of range for positional args tuple")};
            value = arguments_.positional[static_cast<std::size_t>(index)];
        } else {
            const auto at = std::find_if(arguments_.named.begin(), arguments_.named.end(),
                                         [&](const auto& argument) { return argument.first == name; });
            if (at == arguments_.named.end())
                throw Failure{str("there is no '", name, "' to format")};
            value = at->second;
        }
        for (std::size_t at = end; at < text.size();) {
            const bool element = text[at] == '[';
            const std::size_t to = element ? text.find(']', at) : text.find_first_of(".[", at + 1);
            if (element && to == std::string::npos)
                throw Failure{"Missing ']' in format string"};
            const std::string key =
                text.substr(at + 1, (to == std::string::npos ? text.size() : to) - at - 1);
            const std::optional<i64> index = element ? parsed_int(key) : std::nullopt;
            value = !element ? attribute_of(value, key) : item_of(value, index ? Value(*index) : Value(key));
            at = to == std::string::npos ? text.size() : element ? to + 1 : to;
        }
        return value;
    }

    const MarkedText& text_;
    const Arguments& arguments_;
    i64 next_ = 0;
    int depth_ = 0;
};

} // namespace

Value brace_format(const Value& format, const Arguments& arguments)
{
    return {BraceFormatter(format, arguments).run(), format.as_text().safe};
}

} // namespace trivium::jinja
