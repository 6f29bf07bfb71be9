// libFuzzer: any bytes as config.json: a UserError, or a valid model that is unchanged after it is written
// and read again.
#include "base/check.hpp"
#include "io/hugging_face/hugging_face.hpp"

#include <cstdlib>

using namespace trivium;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    ModelConfig model;
    try {
        model = parse_hugging_face_config({reinterpret_cast<const char*>(data), size}, "input").model;
    } catch (const UserError&) {
        return 0;
    }
    validate(model);
    const std::string text = print_hugging_face_config(model, "float32");
    if (print_hugging_face_config(parse_hugging_face_config(text, "again").model, "float32") != text)
        std::abort();
    return 0;
}
