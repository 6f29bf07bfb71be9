// libFuzzer: any bytes as a safetensors file, as its header alone, and as JSON: a UserError or a result.
#include "base/check.hpp"
#include "io/files/strict_json.hpp"
#include "io/hugging_face/safetensors.hpp"

#include <cstdlib>

using namespace trivium;

namespace {

void parse(std::string_view front, Bytes file_bytes)
{
    try {
        const SafetensorsHeader header = parse_safetensors_header(front, file_bytes, "input");
        Bytes end = 0; // accepted tensors cover the data, each byte once
        for (const SafetensorsEntry& tensor : header.tensors) {
            if (tensor.begin != end || tensor.bytes < 0)
                std::abort();
            end += tensor.bytes;
        }
        if (header.data_begin + end != file_bytes)
            std::abort();
    } catch (const UserError&) {
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    parse(text, static_cast<Bytes>(size));
    if (size > 0) { // the first byte determines the amount of data, because otherwise a header of fitting
                    // length is rare
        std::string front(8, '\0');
        for (std::size_t i = 0; i < 8; ++i)
            front[i] = static_cast<char>((size - 1) >> (8 * i) & 0xff);
        parse(front + std::string(text.substr(1)), static_cast<Bytes>(7 + size) + data[0]);
    }
    try {
        (void)parse_strict_json(text, "input");
    } catch (const UserError&) {
    }
    return 0;
}
