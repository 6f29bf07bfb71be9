// libFuzzer: any bytes as the text of a graph, through all steps of `trivium explain FILE.graph`: a
// UserError, or a program whose graph prints as it parses and whose buffers are in its arena.
#include "base/check.hpp"
#include "explain_text.hpp"

#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    try {
        trivium::explain_text(std::string(reinterpret_cast<const char*>(data), size));
    } catch (const trivium::UserError&) {
    }
    return 0;
}
