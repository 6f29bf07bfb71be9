#pragma once
// Pieces and settings of a SentencePiece model. The library does not expose all of them.
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

/// U+2581, which SentencePiece uses for a space.
inline constexpr std::string_view space_mark = "\xe2\x96\x81";

/// The text that a piece stands for.
std::string with_spaces(std::string piece);
/// The piece of a byte: "<0x0A>".
std::string byte_piece(int byte);
/// The byte of such a piece; -1 for other pieces.
int byte_of_piece(std::string_view piece);

struct SentencePieceModel {
    enum class Kind { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
    struct Piece {
        std::string text; ///< spaces are U+2581
        float score = 0;  ///< merges with a higher score come first
        Kind kind = Kind::normal;
    };
    std::vector<Piece> pieces; ///< by id
    bool is_bpe = false;       ///< otherwise unigram, word or character
    bool byte_fallback = false;
    bool has_rules = false; ///< normalisation rules
    bool add_dummy_prefix = true;
    bool remove_extra_whitespaces = true;
    bool escape_whitespaces = true;
    bool space_as_suffix = false;
};

/// Source: sentencepiece_model.proto, in the wire format of Protocol Buffers. Skips unknown fields.
/// UserError about `place` if the bytes are not such a message.
SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& place);

} // namespace trivium
