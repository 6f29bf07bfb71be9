#include "io/arrays/numpy.hpp"

#include "base/check.hpp"

#include <charconv>
#include <cstdint>
#include <string_view>
#include <utility>

namespace trivium {

namespace {

constexpr const char* save_again = "copy it again whole, or save it again with numpy.save";

/// What follows 'key': in the header, a dictionary in Python's notation; empty if it lacks the key.
std::string_view python_value(std::string_view dictionary, std::string_view key)
{
    for (const char quote : {'\'', '"'}) {
        const std::string quoted = str(quote, key, quote);
        std::size_t at = dictionary.find(quoted);
        if (at == std::string_view::npos)
            continue;
        at = dictionary.find_first_not_of(' ', at + quoted.size());
        if (at == std::string_view::npos || dictionary[at] != ':')
            continue;
        at = dictionary.find_first_not_of(' ', at + 1);
        return at == std::string_view::npos ? std::string_view() : dictionary.substr(at);
    }
    return {};
}

/// The text in quotes that `value` begins with.
std::string quoted(std::string_view value)
{
    const std::size_t end = value.empty() ? std::string_view::npos : value.find(value[0], 1);
    if (end == std::string_view::npos || (value[0] != '\'' && value[0] != '"'))
        return {};
    return std::string(value.substr(1, end - 1));
}

/// The extents in "(12, 3)", "(12,)" or "()".
std::optional<Shape> extents_in(std::string_view text)
{
    if (!text.starts_with('(') || !text.ends_with(')'))
        return {};
    text = text.substr(1, text.size() - 2);
    Shape shape;
    while (true) {
        const std::size_t begin = text.find_first_not_of(' ');
        if (begin == std::string_view::npos)
            return shape;
        i64 extent = 0;
        const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), extent);
        if (error != std::errc() || extent < 0)
            return {};
        shape.push_back(extent);
        text.remove_prefix(static_cast<std::size_t>(end - text.data()));
        if (text.empty())
            return shape;
        if (text[0] != ',')
            return {};
        text.remove_prefix(1);
    }
}

} // namespace

NumpyHeader parse_numpy_header(const ByteSource& source)
{
    constexpr Bytes longest = 1 << 16, before = 12;
    if (source.size < before)
        throw UserError({source.path, "is truncated", str("it has ", source.size, " bytes"), save_again});
    unsigned char start[before];
    source.read(0, start, before);
    if (std::string_view(reinterpret_cast<const char*>(start), 6) != "\x93NUMPY")
        throw UserError({source.path, "is not a NumPy file", "it does not begin as numpy.save's files do",
                         "name a .npy file; a member of an .npz file can be saved as one"});
    const int version = start[6];
    if (version < 1 || version > 3)
        throw UserError({source.path, str("is a NumPy file of version ", version),
                         "this program reads versions 1 to 3", "save it with numpy.save"});
    const Bytes at = version == 1 ? 10 : 12;
    Bytes length = start[8] | start[9] << 8;
    if (version > 1)
        length |= Bytes{start[10]} << 16 | Bytes{start[11]} << 24;
    if (length > longest || length > source.size - at)
        throw UserError({source.path, "is truncated",
                         str("its NumPy header has ", length, " bytes, the file ", source.size), save_again});
    std::string text(static_cast<std::size_t>(length), '\0');
    source.read(at, text.data(), length);
    NumpyHeader header;
    header.begin = at + length;
    header.type = quoted(python_value(text, "descr"));
    header.fortran = !python_value(text, "fortran_order").starts_with("False");
    const std::string_view shape = python_value(text, "shape");
    header.extents = shape.substr(0, shape.find(')') + 1);
    header.shape = extents_in(header.extents);
    return header;
}

std::optional<NumpyType> numpy_type(const std::string& type)
{
    static constexpr std::pair<std::string_view, DType> types[] = {
        {"b1", DType::u8},  {"u1", DType::u8},  {"u2", DType::u16}, {"u4", DType::u32},
        {"u8", DType::u64}, {"i1", DType::i8},  {"i2", DType::i16}, {"i4", DType::i32},
        {"i8", DType::i64}, {"f2", DType::f16}, {"f4", DType::f32}, {"f8", DType::f64}};
    for (const auto& [name, known] : types)
        if (type.size() == 3 && type.substr(1) == name && std::string_view("<>|=").find(type[0]) < 4)
            return NumpyType{known, type[0] == '>' && size_of(known) > 1};
    return {};
}

} // namespace trivium
