// libFuzzer: the header of a safetensors file, and config.json's parser, take any bytes: a UserError or a result.
#include "base/check.hpp"
#include "io/safetensors.hpp"
#include "io/strict_json.hpp"

#include <cstdlib>

using namespace trivium;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try {
        const SafetensorsHeader header = parse_safetensors_header(text, static_cast<Bytes>(size), "input");
        Bytes end = 0; // what was accepted covers the data, each byte once
        for (const SafetensorsEntry& tensor : header.tensors) {
            if (tensor.begin != end || tensor.bytes < 0)
                std::abort();
            end += tensor.bytes;
        }
        if (header.data_begin + end != static_cast<Bytes>(size))
            std::abort();
    } catch (const UserError&) {
    }
    try {
        (void)parse_strict_json(text, "input");
    } catch (const UserError&) {
    }
    return 0;
}
