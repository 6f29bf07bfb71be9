#include "io/tokens/formats/token_headers.hpp"

#include "base/check.hpp"
#include "io/arrays/numpy.hpp"
#include "io/tokens/formats/token_types.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

namespace trivium {

namespace {

[[noreturn]] void refuse(const ByteSource& source, const std::string& problem, const std::string& reason,
                         const std::string& remedy = write_foreign_again)
{
    throw UserError({source.path, problem, reason, remedy});
}

template <class T>
T value_at(const ByteSource& source, Bytes at)
{
    T value;
    source.read(at, &value, sizeof value);
    return value;
}

template <class T>
std::vector<T> values_at(const ByteSource& source, Bytes at, i64 count)
{
    std::vector<T> values(static_cast<std::size_t>(count));
    source.read(at, values.data(), count * static_cast<Bytes>(sizeof(T)));
    return values;
}

/// The ids from `begin` to the end of the file are as many as its header says.
void require_whole(const ByteSource& source, const TokenHeader& header)
{
    const Bytes width = size_of(header.type), found = source.size - header.begin;
    if (header.tokens <= 0)
        refuse(source, "contains no tokens", str("its header says ", header.tokens));
    if (found % width != 0 || found / width != header.tokens)
        refuse(source, found / width < header.tokens ? "is truncated" : "is longer than its header says",
               str("the header says ", header.tokens, " ids of ", width, " bytes, behind it are ", found,
                   " bytes"));
}

std::optional<i64> whole_number(std::string_view text)
{
    i64 value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= 0 ? std::optional(value)
                                                                                  : std::nullopt;
}

// ---- Megatron

constexpr std::string_view megatron_magic{"MMIDIDX\0\0", 9}, old_megatron_magic{"TNTIDX\0\0", 8};
constexpr Bytes megatron_header = 34;

TokenType megatron_type(const ByteSource& source, unsigned code)
{
    switch (code) {
    case 1: return TokenType::uint8;
    case 2: return TokenType::int8;
    case 3: return TokenType::int16;
    case 4: return TokenType::int32;
    case 5: return TokenType::int64;
    case 8: return TokenType::uint16;
    default: break;
    }
    refuse(source, str("says that the ids have type ", code),
           code == 6 || code == 7 ? "that is a floating-point type" : "Megatron-LM has no such type");
}

// ---- NumPy

TokenType token_type_of(const ByteSource& source, const std::string& type)
{
    const std::optional<NumpyType> known = numpy_type(type);
    if (known && known->big_endian)
        refuse(source, "is big-endian", str("its NumPy header says '", type, "'"),
               "save it again with array.astype(array.dtype.newbyteorder('<'))");
    static constexpr std::pair<DType, TokenType> types[] = {
        {DType::u8, TokenType::uint8},   {DType::u16, TokenType::uint16}, {DType::u32, TokenType::uint32},
        {DType::u64, TokenType::uint64}, {DType::i8, TokenType::int8},    {DType::i16, TokenType::int16},
        {DType::i32, TokenType::int32},  {DType::i64, TokenType::int64}};
    for (const auto& [of, token] : types)
        if (known && known->type == of)
            return token;
    refuse(source, "has elements that are not integers",
           type.empty() ? "its NumPy header describes no simple type"
                        : str("its NumPy header says '", type, "'"),
           "save a one-dimensional array of uint16 or uint32");
}

} // namespace

TokenHeader read_megatron_index(const ByteSource& source)
{
    std::string magic(static_cast<std::size_t>(std::min<Bytes>(source.size, 9)), '\0');
    source.read(0, magic.data(), static_cast<Bytes>(magic.size()));
    if (magic.starts_with(old_megatron_magic))
        refuse(source, "is an index of the old format TNTIDX", "Megatron-LM replaced it by MMIDIDX",
               "preprocess the text again with a newer Megatron-LM");
    if (magic != megatron_magic)
        refuse(source, "is not an index of Megatron-LM", "it does not begin with MMIDIDX",
               str(write_foreign_again, "; if it does not belong to the .bin file, rename it"));
    if (source.size < megatron_header)
        refuse(source, "is truncated", str("it has ", source.size, " bytes"));
    if (const u64 version = value_at<u64>(source, 9); version != 1)
        refuse(source, str("is an index of version ", version), "this program reads version 1",
               "write it again with Megatron-LM's preprocessing");
    TokenHeader header;
    header.type = megatron_type(source, value_at<std::uint8_t>(source, 17));
    const u64 stated_sequences = value_at<u64>(source, 18), stated_documents = value_at<u64>(source, 26);
    const auto size = static_cast<u64>(source.size - megatron_header);
    const bool fits = stated_sequences <= size / 12 && stated_documents <= size / 8;
    const u64 rest = fits ? 12 * stated_sequences + 8 * stated_documents : 0;
    if (!fits || (size != rest && size != rest + stated_sequences)) // with a mode for each sequence
        refuse(source, fits && size > rest ? "is longer than its header says" : "is truncated",
               str("the header says ", stated_sequences, " sequences and ", stated_documents,
                   " bounds of documents, behind it are ", size, " bytes"));
    const auto sequences = static_cast<i64>(stated_sequences), bounds = static_cast<i64>(stated_documents);
    const Bytes pointers = megatron_header + 4 * sequences, documents = pointers + 8 * sequences;
    // The first sequence of each document becomes the first token of each.
    header.offsets = values_at<i64>(source, documents, bounds);
    if (bounds < 2 || header.offsets.front() != 0 || header.offsets.back() != sequences ||
        !std::ranges::is_sorted(header.offsets))
        refuse(source, "has documents that are not its sequences",
               "the bounds of documents must rise from 0 to the number of sequences");
    const Bytes width = size_of(header.type);
    std::size_t document = 0;
    constexpr i64 at_once = 1 << 16, most_tokens = i64{1} << 59;
    for (i64 begin = 0; begin < sequences; begin += at_once) {
        const i64 count = std::min(at_once, sequences - begin);
        const std::vector<i32> lengths = values_at<i32>(source, megatron_header + 4 * begin, count);
        const std::vector<i64> places = values_at<i64>(source, pointers + 8 * begin, count);
        for (i64 i = 0; i < count; ++i) {
            const auto at = static_cast<std::size_t>(i);
            if (lengths[at] < 0 || header.tokens > most_tokens || places[at] != header.tokens * width)
                refuse(source, str("its sequence ", begin + i, " is not where the ones before it end"),
                       str("it has ", lengths[at], " tokens at byte ", places[at], ", expected byte ",
                           header.tokens * width));
            while (header.offsets[document] == begin + i)
                header.offsets[document++] = header.tokens;
            header.tokens += lengths[at];
        }
    }
    for (; document < header.offsets.size(); ++document)
        header.offsets[document] = header.tokens;
    return header;
}

TokenHeader read_numpy_header(const ByteSource& source)
{
    const NumpyHeader found = parse_numpy_header(source);
    TokenHeader header;
    header.begin = found.begin;
    header.type = token_type_of(source, found.type);
    if (found.fortran)
        refuse(source, "is in Fortran's order", "its NumPy header does not say 'fortran_order': False",
               "save numpy.ascontiguousarray(array)");
    if (!found.shape || found.shape->size() != 1)
        refuse(source, "is not a one-dimensional array",
               str("its NumPy header has the shape ", found.extents), "save array.reshape(-1)");
    header.tokens = found.shape->front();
    require_whole(source, header);
    return header;
}

TokenHeader read_llmc_header(const ByteSource& source, i32 magic)
{
    TokenHeader header;
    header.begin = 1024;
    if (source.size < header.begin)
        refuse(source, "is truncated", str("it has ", source.size, " bytes, its header alone has 1024"));
    header.type = magic == llmc_gpt2 ? TokenType::uint16 : TokenType::uint32;
    // llm.c writes version 7 for Llama 3, a fork of it 1.
    if (const i32 version = value_at<i32>(source, 4); version != 1 && (magic == llmc_gpt2 || version != 7))
        refuse(source, str("is a shard of llm.c of version ", version),
               magic == llmc_gpt2 ? "this program reads version 1" : "this program reads versions 1 and 7",
               "write it again with llm.c's own scripts");
    header.tokens = value_at<i32>(source, 8);
    require_whole(source, header);
    return header;
}

TokenHeader read_datatrove_index(const ByteSource& source)
{
    if (source.size % 8 != 0 || source.size == 0)
        refuse(source, source.size == 0 ? "is empty" : "is truncated",
               str("it has ", source.size, " bytes, 8 for each document"));
    TokenHeader header;
    const i64 documents = source.size / 8;
    header.offsets.resize(static_cast<std::size_t>(documents + 1));
    source.read(0, header.offsets.data() + 1, source.size);
    // Ends above 2^63 are negative here.
    const auto descent = std::ranges::is_sorted_until(header.offsets);
    if (descent != header.offsets.end())
        refuse(source,
               str("the end of document ", descent - header.offsets.begin() - 1,
                   " is before that of the one before it"),
               "ends of documents must rise");
    header.tokens = header.offsets.back();
    return header;
}

DatatroveMetadata parse_datatrove_metadata(const std::string& text)
{
    DatatroveMetadata metadata;
    const std::size_t first = text.find('\n');
    const std::string_view name = std::string_view(text).substr(0, first);
    if (const std::size_t bar = name.rfind('|'); bar != std::string_view::npos)
        metadata.width = whole_number(name.substr(bar + 1)).value_or(0);
    if (first != std::string::npos) {
        const std::string_view rest = std::string_view(text).substr(first + 1);
        metadata.tokens = whole_number(rest.substr(0, rest.find('\n'))).value_or(-1);
    }
    return metadata;
}

} // namespace trivium
