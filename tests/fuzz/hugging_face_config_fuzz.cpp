// libFuzzer: any bytes as config.json: a UserError, or a valid model that is unchanged after it is written
// and read again.
#include "base/check.hpp"
#include "io/hugging_face/hugging_face.hpp"

#include <cstdlib>

using namespace trivium;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    HuggingFaceConfig config;
    try {
        config = parse_hugging_face_config({reinterpret_cast<const char*>(data), size}, "input");
    } catch (const UserError&) {
        return 0;
    }
    validate(config.model);
    const std::string text = print_hugging_face_config(config.model, *config.architecture, "float32");
    const HuggingFaceConfig again = parse_hugging_face_config(text, "again");
    if (again.architecture != config.architecture ||
        print_hugging_face_config(again.model, *again.architecture, "float32") != text)
        std::abort();
    return 0;
}
