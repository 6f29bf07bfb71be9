// libFuzzer: any bytes as a SentencePiece model: a UserError, or a model with a tokenizer.json or a reason
// why there is none.
#include "base/check.hpp"
#include "io/hugging_face/sentencepiece_json.hpp"

#include <cstdlib>

using namespace trivium;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    try {
        const SentencePieceModel model =
            parse_sentencepiece_model({reinterpret_cast<const char*>(data), size}, "input");
        const SentencePieceJson json = print_sentencepiece_json(model, model.pieces.empty() ? -1 : 0);
        if (json.text.empty() == json.reason.empty())
            std::abort();
    } catch (const UserError&) {
    }
    return 0;
}
