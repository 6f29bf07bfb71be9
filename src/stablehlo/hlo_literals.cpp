// Numbers and constants of StableHLO text.
#include "ir/limits.hpp"
#include "stablehlo/hlo_text.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstring>

namespace trivium {

namespace {

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

} // namespace

bool is_real(HloElement element) { return element <= HloElement::bf16; }

const char* hlo_name_of(HloElement element) { return row_of(element).name; }

std::optional<HloElement> hlo_element_named(std::string_view name)
{
    for (const ElementName& row : element_names)
        if (name == row.name)
            return row.element;
    return {};
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
    if (take("(")) { // a complex number, of a type that is refused where an op reads it
        number();
        want(",");
        all.push_back(number());
        return want(")");
    }
    if (!take("["))
        return all.push_back(number());
    items("]", [&] { numbers(all); });
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

} // namespace trivium
