// libFuzzer: any bytes as a tokenizer.json. An accepted tokenizer encodes a part of these bytes and decodes
// any ids.
#include "base/check.hpp"
#include "io/tokens/tokenizer/json_tokenizer.hpp"

#include <algorithm>
#include <cstdlib>

using namespace trivium;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string text(reinterpret_cast<const char*>(data), size);
    std::unique_ptr<Tokenizer> tokenizer;
    try {
        tokenizer = make_json_tokenizer(text, "input");
    } catch (const UserError&) {
        return 0;
    }
    std::vector<i32> ids;
    for (const i64 any : {i64{-1}, tokenizer->vocab_size() - 1, tokenizer->vocab_size()})
        ids.push_back(static_cast<i32>(any));
    for (std::size_t i = 0; i < std::min<std::size_t>(size, 64); ++i)
        ids.push_back(data[size - 1 - i] * 7);
    (void)tokenizer->decode(ids);
    // Half from the start, which contains the names, half from anywhere.
    const std::string part = text.substr(0, 100) + " The king's \xe4\xbd\xa0 123\n\n  " +
                             text.substr(size - std::min<std::size_t>(size, 300));
    try {
        for (const i32 id : tokenizer->encode(part))
            if (id < 0 || id >= tokenizer->vocab_size() || id == tokenizer->bos() || id == tokenizer->eos())
                std::abort();
    } catch (const UserError&) { // a pattern that takes too long
    }
    return 0;
}
