// libFuzzer: a byte that names a format, and the file. A UserError, or a header whose tokens and documents
// are within the file.
#include "base/check.hpp"
#include "io/tokens/formats/token_headers.hpp"
#include "io/tokens/formats/token_types.hpp"

#include <algorithm>
#include <cstdlib>

using namespace trivium;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    if (size == 0)
        return 0;
    const std::uint8_t format = data[0] % 5;
    const auto bytes = static_cast<Bytes>(size - 1);
    const ByteSource source{"input", bytes, [&](Bytes at, void* to, Bytes count) {
                                if (at < 0 || count < 0 || at > bytes - count)
                                    std::abort();
                                std::copy_n(data + 1 + at, count, static_cast<std::uint8_t*>(to));
                            }};
    try {
        const TokenHeader header = format == 0   ? read_megatron_index(source)
                                   : format == 1 ? read_numpy_header(source)
                                   : format == 2 ? read_llmc_header(source, llmc_gpt2)
                                   : format == 3 ? read_llmc_header(source, llmc_llama3)
                                                 : read_datatrove_index(source);
        const bool is_index = format == 0 || format == 4;
        if (!is_index && header.begin + header.tokens * size_of(header.type) != bytes)
            std::abort();
        if (is_index && (header.offsets.front() != 0 || header.offsets.back() != header.tokens ||
                         !std::ranges::is_sorted(header.offsets)))
            std::abort();
    } catch (const UserError&) {
    }
    (void)parse_datatrove_metadata(std::string(reinterpret_cast<const char*>(data), size));
    return 0;
}
