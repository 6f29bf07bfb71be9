#include "stablehlo/hlo_text.hpp"

#include "base/bf16.hpp"
#include "ir/limits.hpp"

#include <bit>
#include <cctype>
#include <charconv>
#include <cstring>

namespace trivium {

namespace {

constexpr int max_depth = 64; ///< of brackets

bool is_word(char c)
{
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$';
}

struct ElementName {
    const char* name;
    HloElement element;
    int bits;
};
constexpr ElementName element_names[] = {
    {"f64", HloElement::f64, 64},  {"f32", HloElement::f32, 32},  {"bf16", HloElement::bf16, 16},
    {"i1", HloElement::i1, 1},     {"i8", HloElement::i8, 8},     {"i16", HloElement::i16, 16},
    {"i32", HloElement::i32, 32},  {"i64", HloElement::i64, 64},  {"ui8", HloElement::u8, 8},
    {"ui16", HloElement::u16, 16}, {"ui32", HloElement::u32, 32}, {"ui64", HloElement::u64, 64}};

const ElementName& row_of(HloElement element) { return element_names[static_cast<std::size_t>(element)]; }

double real_of_bits(HloElement element, u64 bits)
{
    if (element == HloElement::f64)
        return std::bit_cast<double>(bits);
    if (element == HloElement::f32)
        return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
}

HloType type_of(const std::string& text)
{
    HloType type;
    std::string_view rest = text;
    i64 elements = 1;
    for (;;) {
        i64 extent = 0;
        const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), extent);
        if (error != std::errc{} || end == rest.data() + rest.size() || *end != 'x' || extent < 0 ||
            type.shape.size() == max_dims || extent > max_elements ||
            elements > max_elements / std::max<i64>(extent, 1))
            break;
        elements *= std::max<i64>(extent, 1);
        type.shape.push_back(extent);
        rest.remove_prefix(static_cast<std::size_t>(end - rest.data()) + 1);
    }
    for (const ElementName& row : element_names)
        if (rest == row.name) {
            type.element = row.element;
            return type;
        }
    type.refused = "tensor<" + text + ">";
    return type;
}

} // namespace

bool is_real(HloElement element) { return element <= HloElement::bf16; }

std::string to_string(const HloType& type)
{
    if (!type.refused.empty())
        return type.refused;
    std::string text = "tensor<";
    for (const i64 extent : type.shape)
        text += std::to_string(extent) + "x";
    return text + row_of(type.element).name + ">";
}

i64 wrapped(HloElement element, i64 number)
{
    const int bits = row_of(element).bits;
    if (bits == 64)
        return number;
    const auto low = static_cast<u64>(number) & ((u64{1} << bits) - 1);
    if (element >= HloElement::u8 || element == HloElement::i1 || low >> (bits - 1) == 0)
        return static_cast<i64>(low);
    return static_cast<i64>(low) - (i64{1} << bits);
}

const HloAttribute* HloAttribute::find(std::string_view name) const
{
    for (std::size_t i = 0; i < names.size(); ++i)
        if (names[i] == name)
            return &items[i];
    return nullptr;
}

/// Counts nested brackets.
class HloText::Deeper {
public:
    explicit Deeper(HloText& text) : text_(text)
    {
        if (++text_.depth_ > max_depth)
            text_.fail(str("has more than ", max_depth, " nested brackets"));
    }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    ~Deeper() { --text_.depth_; }

private:
    HloText& text_;
};

void HloText::fail(const std::string& problem, const std::string& remedy) const
{
    throw UserError({str(file_, ":", line_), problem, "",
                     remedy.empty() ? "give StableHLO text, as jax.export writes it" : remedy});
}

void HloText::skip()
{
    while (at_ < text_.size()) {
        const char c = text_[at_];
        if (c == '\n')
            ++line_;
        else if (c == '/' && text_.substr(at_, 2) == "//")
            at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
        else if (!std::isspace(static_cast<unsigned char>(c)))
            return;
        ++at_;
    }
}

bool HloText::done()
{
    skip();
    return at_ >= text_.size();
}

bool HloText::sees(std::string_view token)
{
    skip();
    if (text_.substr(at_, token.size()) != token)
        return false;
    const std::size_t end = at_ + token.size();
    return !is_word(token.back()) || end >= text_.size() || !is_word(text_[end]);
}

bool HloText::take(std::string_view token)
{
    if (!sees(token))
        return false;
    at_ += token.size();
    return true;
}

void HloText::want(std::string_view token)
{
    if (!take(token))
        fail(str("expected '", token, "'", done() ? ", the text ends" : str(", not '", text_[at_], "'")));
}

char HloText::peek()
{
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
}

bool HloText::sees_word()
{
    const char c = peek();
    return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
}

std::string HloText::word()
{
    skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_]))
        ++at_;
    if (begin == at_)
        fail(done() ? "expected a name, the text ends" : str("expected a name, not '", text_[at_], "'"));
    return std::string(text_.substr(begin, at_ - begin));
}

std::string HloText::quoted()
{
    want("\"");
    std::string text;
    while (at_ < text_.size() && text_[at_] != '"') {
        if (text_[at_] == '\\' && at_ + 1 < text_.size())
            ++at_;
        if (text_[at_] == '\n')
            ++line_;
        text += text_[at_++];
    }
    if (at_ >= text_.size())
        fail("a string has no closing quote");
    ++at_;
    return text;
}

std::string HloText::value_name()
{
    want("%");
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '-') && text_.substr(at_, 2) != "->")
        ++at_;
    if (begin == at_)
        fail("expected a name after '%'");
    return "%" + std::string(text_.substr(begin, at_ - begin));
}

std::string HloText::operand()
{
    std::string name = value_name();
    if (at_ < text_.size() && text_[at_] == '#') {
        ++at_;
        name += "#" + std::to_string(integer());
    }
    return name;
}

i64 HloText::integer()
{
    skip();
    i64 value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{})
        fail("expected an integer");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
}

std::string HloText::balanced(char open, char close)
{
    want(std::string_view(&open, 1));
    const std::size_t begin = at_;
    int depth = 1;
    for (; at_ < text_.size(); ++at_) {
        const char c = text_[at_];
        if (c == '\n')
            ++line_;
        if (c == '"') {
            quoted();
            --at_;
        } else if (c == open) {
            ++depth;
        } else if (c == close && !(c == '>' && text_[at_ - 1] == '-') && --depth == 0) {
            return std::string(text_.substr(begin, at_++ - begin));
        }
    }
    fail(str("'", open, "' is not closed"));
}

HloType HloText::type()
{
    if (take("tensor")) {
        if (peek() != '<')
            fail("expected '<' after 'tensor'");
        return type_of(balanced('<', '>'));
    }
    HloType type;
    if (take("!"))
        type.refused = "!";
    type.refused += word();
    if (peek() == '<')
        type.refused += "<" + balanced('<', '>') + ">";
    return type;
}

HloText::Number HloText::number()
{
    skip();
    Number read;
    if (take("true") || take("false")) {
        read.whole = text_[at_ - 2] == 'u';
        return read;
    }
    const char *const begin = text_.data() + at_, *const end = text_.data() + text_.size();
    if (text_.substr(at_, 2) == "0x" || text_.substr(at_, 2) == "0X") {
        u64 bits = 0;
        const auto [stop, error] = std::from_chars(begin + 2, end, bits, 16);
        if (error != std::errc{})
            fail("expected a hexadecimal number of at most 64 bits");
        at_ = static_cast<std::size_t>(stop - text_.data());
        read.whole = static_cast<i64>(bits);
        read.bits = true;
        return read;
    }
    const auto whole = std::from_chars(begin, end, read.whole);
    const auto real = std::from_chars(begin, end, read.number);
    // A number beyond the range of its type is one of u64, or refused.
    if (real.ec == std::errc::invalid_argument || std::isalpha(static_cast<unsigned char>(*begin)))
        fail("expected a number");
    read.real = whole.ec == std::errc{} && whole.ptr != real.ptr;
    if (whole.ec != std::errc{} && !read.real) {
        u64 large = 0;
        const auto unsigned_whole = std::from_chars(begin, end, large);
        read.whole = static_cast<i64>(large);
        read.real = unsigned_whole.ec != std::errc{} || unsigned_whole.ptr != real.ptr;
    }
    if (read.real && real.ec != std::errc{})
        fail("a number is out of range");
    at_ = static_cast<std::size_t>(real.ptr - text_.data());
    return read;
}

void HloText::numbers(std::vector<Number>& all)
{
    const Deeper deeper(*this);
    if (!take("["))
        return all.push_back(number());
    while (!take("]")) {
        numbers(all);
        if (!sees("]"))
            want(",");
    }
}

HloLiteral HloText::literal_of(const std::vector<Number>& all, const HloType& type) const
{
    HloLiteral literal{type, all.size() == 1};
    if (!literal.splat && static_cast<i64>(all.size()) != elements_of(type))
        fail(str("a constant of ", to_string(type), " has ", all.size(), " elements"));
    for (const Number& n : all)
        if (!is_real(type.element)) {
            if (n.real)
                fail("an integer constant has a real number");
            literal.ints.push_back(wrapped(type.element, n.whole));
        } else if (n.bits) {
            literal.reals.push_back(real_of_bits(type.element, static_cast<u64>(n.whole)));
        } else {
            literal.reals.push_back(n.real ? n.number : static_cast<double>(n.whole));
        }
    return literal;
}

HloLiteral HloText::literal_of_bytes(const std::string& hex, const HloType& type) const
{
    std::string bytes;
    const auto digit = [&](char c) {
        const auto at = std::string_view("0123456789ABCDEF").find(static_cast<char>(std::toupper(c)));
        if (at == std::string_view::npos)
            fail(str("'", c, "' is not a hexadecimal digit"));
        return static_cast<int>(at);
    };
    if (!hex.starts_with("0x") || hex.size() % 2 != 0)
        fail("expected \"0x…\", two digits per byte");
    for (std::size_t i = 2; i + 1 < hex.size(); i += 2)
        bytes += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
    const i64 count = elements_of(type);
    const auto size = static_cast<std::size_t>(std::max(row_of(type.element).bits / 8, 1)),
               have = bytes.size();
    const bool packed =
        type.element == HloElement::i1 && count > 1 && have == static_cast<std::size_t>((count + 7) / 8);
    HloLiteral literal{type, have == size && !packed};
    if (!literal.splat && !packed && have != static_cast<std::size_t>(count) * size)
        fail(str("a constant of ", to_string(type), " has ", have, " bytes"));
    for (std::size_t i = 0; i < (literal.splat ? 1 : static_cast<std::size_t>(count)); ++i) {
        u64 bits = 0;
        if (packed)
            bits = static_cast<unsigned char>(bytes[i / 8]) >> (i % 8) & 1u;
        else
            std::memcpy(&bits, bytes.data() + i * size, size); // little-endian, like the hosts
        if (is_real(type.element))
            literal.reals.push_back(real_of_bits(type.element, bits));
        else if (type.element == HloElement::i1)
            literal.ints.push_back(bits != 0);
        else
            literal.ints.push_back(wrapped(type.element, static_cast<i64>(bits)));
    }
    return literal;
}

HloAttribute HloText::dense()
{
    HloAttribute made{HloAttribute::Kind::literal};
    std::vector<Number> all;
    std::string hex;
    want("<");
    if (sees("\""))
        hex = quoted();
    else if (!sees(">"))
        numbers(all);
    want(">");
    want(":");
    const HloType type_read = type();
    if (!type_read.refused.empty()) { // the op that reads it is refused, not the text
        made.literal.type = type_read;
        return made;
    }
    made.literal = hex.empty() ? literal_of(all, type_read) : literal_of_bytes(hex, type_read);
    return made;
}

HloAttribute HloText::list(std::string_view open, std::string_view close)
{
    const Deeper deeper(*this);
    HloAttribute made{HloAttribute::Kind::list};
    want(open);
    while (!take(close)) {
        made.items.push_back(value(true));
        if (!sees(close))
            want(",");
    }
    return made;
}

HloAttribute HloText::dictionary(std::string_view open, std::string_view close)
{
    const Deeper deeper(*this);
    HloAttribute made{HloAttribute::Kind::dictionary};
    want(open);
    while (!take(close)) {
        const bool in_quotes = sees("\"");
        std::string name = in_quotes ? quoted() : word();
        if (take("=")) {
            made.names.push_back(std::move(name));
            made.items.push_back(value(true));
        } else { // a set of words, or an attribute without value
            HloAttribute item{HloAttribute::Kind::word};
            item.text = name;
            item.number = 1;
            made.names.push_back(std::move(name));
            made.items.push_back(std::move(item));
        }
        if (!sees(close))
            want(",");
    }
    return made;
}

HloAttribute HloText::value(bool typed)
{
    const Deeper deeper(*this);
    HloAttribute made;
    const char c = peek();
    if (c == '"') {
        made.kind = HloAttribute::Kind::text;
        made.text = quoted();
        if (typed && take(":"))
            type();
    } else if (c == '[') {
        made = list("[", "]");
    } else if (c == '{') {
        made = dictionary();
    } else if (c == '<') {
        made.kind = HloAttribute::Kind::raw;
        made.text = balanced('<', '>');
    } else if (c == '@') {
        want("@");
        made.text = sees("\"") ? quoted() : word();
        while (take("::@"))
            made.text += "::" + word();
    } else if (c == '#') { // "#stablehlo.conv<…>", "#stablehlo<comparison_type FLOAT>", or an alias
        want("#");
        made.text = "#" + word();
        if (peek() == '<') {
            made.kind = HloAttribute::Kind::raw;
            made.text = balanced('<', '>');
        }
    } else if (c == '!' || sees("tensor")) {
        made.text = to_string(type());
    } else if (take("dense")) {
        made = dense();
    } else if (take("dense_resource")) {
        fail("has a constant dense_resource<…>, whose elements are not in the text",
             "print the module with large constants, or pass them as arguments");
    } else if (take("array")) {
        made.kind = HloAttribute::Kind::list;
        want("<");
        word();
        if (take(":"))
            while (!sees(">")) {
                made.items.push_back(value(false));
                if (!sees(">"))
                    want(",");
            }
        want(">");
    } else if (take("loc")) {
        balanced('(', ')');
    } else if (c == '-' || std::isdigit(static_cast<unsigned char>(c))) {
        const Number n = number();
        made.kind = HloAttribute::Kind::number;
        made.number = n.real ? 0 : n.whole;
        made.text = n.real ? str(n.number) : "";
        if (typed && take(":"))
            type();
    } else {
        made.text = word();
        made.number = made.text == "true";
    }
    return made;
}

} // namespace trivium
