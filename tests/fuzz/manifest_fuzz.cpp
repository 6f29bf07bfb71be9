// libFuzzer: any bytes as the manifest of a checkpoint, unchanged and with the right seal appended: a
// UserError, or a manifest that prints as it parses.
#include "base/check.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/files/hash.hpp"

#include <cstdlib>

using namespace trivium;

namespace {

void parse(const std::string& text)
{
    try {
        const std::string printed = print_manifest(parse_manifest(text, "input"));
        if (print_manifest(parse_manifest(printed, "printed")) != printed)
            std::abort();
    } catch (const UserError&) {
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string text(reinterpret_cast<const char*>(data), size);
    parse(text);
    parse(str(text, ",\n  \"xxh3\": \"", hex(hash_block(text.data(), static_cast<Bytes>(size))), "\"\n}\n"));
    return 0;
}
