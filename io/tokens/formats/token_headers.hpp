#pragma once
// Headers and indices of files of tokens that other programs wrote. The functions throw a UserError about
// `source.path` if its bytes are not what the format says, before they allocate what its numbers ask for.
#include "base/units.hpp"
#include "config/token_type.hpp"
#include "io/files/byte_source.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace trivium {

inline constexpr const char* write_foreign_again =
    "copy it again whole, or write it again with the program that made it";

/// Where the ids are, and where documents begin.
struct TokenHeader {
    TokenType type = TokenType::automatic; ///< automatic: the format does not say
    Bytes begin = 0;                       ///< of the first id in its file
    i64 tokens = 0;
    std::vector<i64> offsets{}; ///< documents + 1, the last one is `tokens`; empty: the format does not say
};

/// Megatron-LM's .idx: its documents are those of its third array, each a range of sequences, which follow
/// each other in the .bin without gaps.
TokenHeader read_megatron_index(const ByteSource& source);

/// The header of a NumPy file, one-dimensional and little-endian, with all of its elements behind it.
TokenHeader read_numpy_header(const ByteSource& source);

/// The first KiB of a shard of llm.c, with all of its ids behind it. `magic`: llmc_gpt2 or llmc_llama3.
TokenHeader read_llmc_header(const ByteSource& source, i32 magic);
inline constexpr i32 llmc_gpt2 = 20240520, llmc_llama3 = 20240801;

/// datatrove's .ds.index: the end of each document. Leaves the type open.
TokenHeader read_datatrove_index(const ByteSource& source);

/// datatrove's .ds.metadata: "TOKENIZER" or "TOKENIZER|BYTES OF AN ID", the number of tokens, the same for
/// people.
struct DatatroveMetadata {
    Bytes width = 0; ///< 0: it does not say
    i64 tokens = -1; ///< -1: it does not say
};
DatatroveMetadata parse_datatrove_metadata(const std::string& text);

} // namespace trivium
