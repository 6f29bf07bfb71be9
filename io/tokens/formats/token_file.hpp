#pragma once
// Files of tokens that other programs wrote, described so that one reader (io/tokens/token_store.hpp) reads
// all of them in place. All are little-endian.
//
//   Megatron-LM  NAME.bin   the ids
//                NAME.idx   their type, the lengths of sequences, the sequences of each document
//   llm.c        NAME.bin   256 i32 (magic, version, number of ids), then u16 (GPT-2) or u32 (Llama 3)
//   nanoGPT      NAME.bin   the ids alone: u16, in forks u32
//   OLMo         NAME.npy   the ids alone
//   NumPy        NAME.npy   a header, then the ids
//   datatrove    NAME.ds    the ids; NAME.ds.index: u64, the end of each document; NAME.ds.metadata: text
#include "io/tokens/formats/token_headers.hpp"

#include <optional>

namespace trivium {

struct TokenFile {
    std::string path;     ///< the file with the ids
    std::string format;   ///< "Megatron .bin and .idx"
    TokenHeader header;   ///< its type is known
    bool guessed = false; ///< the type was found from the content
};

/// What is at `path`, by content and name; for Megatron-LM it may be the .bin, the .idx, or both without the
/// suffix. nullopt if it is none of these formats, such as a store of Trivium. `headerless`: the type of ids
/// without a header or an index. UserError if the file is empty, truncated, no multiple of its type, or
/// contradicts its index; IoError.
std::optional<TokenFile> find_token_file(const std::string& path,
                                         TokenType headerless = TokenType::automatic);

} // namespace trivium
