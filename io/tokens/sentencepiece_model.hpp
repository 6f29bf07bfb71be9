#pragma once
// What a SentencePiece model says of itself. The library encodes with it, but does not tell all of its
// settings.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

struct SentencePieceModel {
    enum class Kind { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
    struct Piece {
        std::string text; ///< spaces are U+2581
        float score = 0;  ///< of two merges the one with the higher score comes first
        Kind kind = Kind::normal;
    };
    std::vector<Piece> pieces; ///< by id
    bool is_bpe = false;       ///< otherwise unigram, word or character
    bool byte_fallback = false;
    bool has_rules = false; ///< of normalisation
    bool add_dummy_prefix = true;
    bool remove_extra_whitespaces = true;
    bool escape_whitespaces = true;
    bool space_as_suffix = false;
};

/// Source: sentencepiece_model.proto, in the wire format of Protocol Buffers. Unknown fields are skipped.
/// UserError about `place` where the bytes are not such a message.
SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& place);

} // namespace trivium
