#pragma once
// Files of tokens as other programs write them, after the descriptions of their layouts; nothing of the code
// under test.
#include <cstdint>
#include <string>
#include <vector>

namespace foreign {

using Numbers = std::vector<std::int64_t>;

template <class T>
std::string packed(const Numbers& numbers)
{
    std::string bytes;
    for (const std::int64_t number : numbers) {
        const T value = static_cast<T>(number);
        bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    return bytes;
}

/// Each document is a sequence. `code`: 4 for int32, 8 for uint16. `bounds`: the first sequence of each
/// document, then their number.
inline std::string megatron_index(int code, std::int64_t width, const Numbers& lengths, const Numbers& bounds)
{
    Numbers places;
    std::int64_t at = 0;
    for (const std::int64_t length : lengths) {
        places.push_back(at);
        at += length * width;
    }
    return std::string("MMIDIDX\0\0", 9) + packed<std::uint64_t>({1}) + static_cast<char>(code) +
           packed<std::uint64_t>(
               {static_cast<std::int64_t>(lengths.size()), static_cast<std::int64_t>(bounds.size())}) +
           packed<std::int32_t>(lengths) + packed<std::int64_t>(places) + packed<std::int64_t>(bounds);
}

inline std::string llmc_header(std::int64_t magic, std::int64_t version, std::int64_t tokens)
{
    Numbers header(256, 0);
    header[0] = magic;
    header[1] = version;
    header[2] = tokens;
    return packed<std::int32_t>(header);
}

/// Padded to a multiple of 64 bytes, as numpy.save does.
inline std::string numpy_header(const std::string& type, const std::string& shape,
                                const std::string& fortran = "False", int version = 1)
{
    std::string text =
        "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
    const std::size_t before = version == 1 ? 10 : 12;
    while ((before + text.size() + 1) % 64 != 0)
        text += ' ';
    text += '\n';
    const auto length = static_cast<std::int64_t>(text.size());
    return std::string("\x93NUMPY") + static_cast<char>(version) + '\0' +
           (version == 1 ? packed<std::uint16_t>({length}) : packed<std::uint32_t>({length})) + text;
}

} // namespace foreign
