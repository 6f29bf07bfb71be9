#include "io/tokens/sentencepiece_model.hpp"

#include "base/check.hpp"
#include "base/units.hpp"

#include <bit>
#include <cstdio>
#include <cstring>
#include <functional>

namespace trivium {

namespace {

/// A field of a message: its number, and its value as a number or as bytes.
struct Field {
    u64 number = 0, value = 0;
    std::string_view bytes{};
};

struct WireReader {
    std::string_view rest;
    const std::string& place;

    [[noreturn]] void refuse() const
    {
        throw UserError({place, "is not a SentencePiece model", "it is damaged",
                         "get the file again from where it came from"});
    }
    std::string_view take(u64 count)
    {
        if (count > rest.size())
            refuse();
        const std::string_view taken = rest.substr(0, count);
        rest.remove_prefix(count);
        return taken;
    }
    u64 varint()
    {
        u64 value = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            const auto byte = static_cast<unsigned char>(take(1)[0]);
            value |= u64{byte & 0x7fu} << shift;
            if (byte < 0x80)
                return value;
        }
        refuse();
    }
    Field next()
    {
        const u64 key = varint();
        Field field{key >> 3};
        switch (key & 7) {
        case 0: field.value = varint(); break;
        case 1: field.bytes = take(8); break;
        case 2: field.bytes = take(varint()); break;
        case 5: field.bytes = take(4); break;
        default: refuse();
        }
        return field;
    }
};

void read_fields(std::string_view bytes, const std::string& place,
                 const std::function<void(const Field&)>& visit)
{
    WireReader reader{bytes, place};
    while (!reader.rest.empty())
        visit(reader.next());
}

SentencePieceModel::Piece read_piece(std::string_view bytes, const std::string& place)
{
    SentencePieceModel::Piece piece;
    read_fields(bytes, place, [&](const Field& field) {
        if (field.number == 1)
            piece.text = field.bytes;
        else if (field.number == 2 && field.bytes.size() == 4)
            std::memcpy(&piece.score, field.bytes.data(), 4);
        else if (field.number == 3 && field.value >= 1 && field.value <= 6)
            piece.kind = static_cast<SentencePieceModel::Kind>(field.value);
    });
    return piece;
}

static_assert(std::endian::native == std::endian::little, "scores are copied from little-endian bytes");

} // namespace

std::string with_spaces(std::string piece)
{
    for (std::size_t at = 0; (at = piece.find(space_mark, at)) != std::string::npos; ++at)
        piece.replace(at, space_mark.size(), " ");
    return piece;
}

std::string byte_piece(int byte)
{
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(byte));
    return text;
}

int byte_of_piece(std::string_view piece)
{
    constexpr std::string_view digits = "0123456789ABCDEF";
    if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>')
        return -1;
    const std::size_t high = digits.find(piece[3]), low = digits.find(piece[4]);
    return high == std::string_view::npos || low == std::string_view::npos
               ? -1
               : static_cast<int>(16 * high + low);
}

SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& place)
{
    SentencePieceModel model;
    const auto trainer = [&](const Field& field) {
        constexpr u64 bpe = 2;
        if (field.number == 3)
            model.is_bpe = field.value == bpe;
        else if (field.number == 24)
            model.space_as_suffix = field.value != 0;
        else if (field.number == 35)
            model.byte_fallback = field.value != 0;
    };
    const auto normalizer = [&](const Field& field) {
        if (field.number == 2)
            model.has_rules = !field.bytes.empty();
        else if (field.number == 3)
            model.add_dummy_prefix = field.value != 0;
        else if (field.number == 4)
            model.remove_extra_whitespaces = field.value != 0;
        else if (field.number == 5)
            model.escape_whitespaces = field.value != 0;
    };
    read_fields(bytes, place, [&](const Field& field) {
        if (field.number == 1)
            model.pieces.push_back(read_piece(field.bytes, place));
        else if (field.number == 2)
            read_fields(field.bytes, place, trainer);
        else if (field.number == 3)
            read_fields(field.bytes, place, normalizer);
    });
    return model;
}

} // namespace trivium
