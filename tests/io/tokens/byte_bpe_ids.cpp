// byte_bpe_ids TOKENIZER: for each line of hexadecimal text on stdin, prints the ids, a '|', and the decoded
// text in hexadecimal.
#include "io/tokens/tokenizer.hpp"

#include <cstdio>
#include <iostream>

using namespace trivium;

int main(int, char** argv)
{
    const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(argv[1]);
    for (std::string line; std::getline(std::cin, line);) {
        std::string text;
        for (std::size_t at = 0; at + 1 < line.size(); at += 2)
            text += static_cast<char>(std::stoi(line.substr(at, 2), nullptr, 16));
        const std::vector<i32> ids = tokenizer->encode(text);
        for (const i32 id : ids)
            std::printf("%d ", id);
        std::printf("|");
        for (const char c : tokenizer->decode(ids))
            std::printf("%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
        std::printf("\n");
    }
}
