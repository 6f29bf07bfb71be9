#include "io/checkpoint/tensor_record.hpp"

#include "io/checkpoint/box.hpp"
#include "io/files/damaged.hpp"

#include <algorithm>
#include <cstring>

namespace trivium {

namespace {

constexpr u64 longest_name = 4096, max_dimensions = 32;
constexpr u64 largest = u64{1} << 62;

} // namespace

std::string dataset_name(const std::string& tensor, i64 number)
{
    return number == 0 ? tensor : str(tensor, "@", number);
}

void append(std::vector<u64>& words, const TensorRecord& record)
{
    const auto extents = [&](const Shape& shape) { words.insert(words.end(), shape.begin(), shape.end()); };
    words.push_back(record.name.size());
    const std::size_t at = words.size();
    words.resize(at + (record.name.size() + 7) / 8);
    std::memcpy(words.data() + at, record.name.data(), record.name.size());
    const auto type = std::find(stored_types.begin(), stored_types.end(), record.type);
    TRV_CHECK(type != stored_types.end(), record.name, " is of ", name_of(record.type));
    words.push_back(static_cast<u64>(type - stored_types.begin()));
    words.push_back(record.shape.size());
    extents(record.shape);
    words.push_back(record.pieces.size());
    for (const StoredPiece& piece : record.pieces) {
        words.insert(words.end(), {static_cast<u64>(piece.shard), static_cast<u64>(piece.number),
                                   static_cast<u64>(piece.offset)});
        extents(piece.box.offset);
        extents(piece.box.shape);
    }
}

TensorHead read_head(const ReadWords& read, i64 begin, i64 end, const std::string& place)
{
    const i64 first = begin;
    const auto next = [&](u64 count, u64* to) {
        if (count > static_cast<u64>(end - begin))
            throw DamagedCheckpoint(place, str("the record at word ", first, " does not end"));
        read(begin, static_cast<i64>(count), to);
        begin += static_cast<i64>(count);
    };
    const auto number = [&](u64 most, const char* what) {
        u64 word = 0;
        next(1, &word);
        if (word > most)
            throw DamagedCheckpoint(place, str("the record at word ", first, " has ", what, " ", word));
        return word;
    };
    TensorHead head;
    const u64 bytes = number(longest_name, "a name of bytes");
    std::vector<u64> name((bytes + 7) / 8);
    next(name.size(), name.data());
    head.name.assign(reinterpret_cast<const char*>(name.data()), bytes);
    head.type = stored_types[number(stored_types.size() - 1, "type")];
    std::vector<u64> shape(number(max_dimensions, "dimensions"));
    next(shape.size(), shape.data());
    for (const u64 extent : shape)
        head.shape.push_back(static_cast<i64>(std::min(extent, largest)));
    if (!safe_count(head.shape))
        throw DamagedCheckpoint(place,
                                str("tensor '", head.name, "' has the shape ", print_shape(head.shape)));
    const i64 each = words_of_piece(static_cast<i64>(shape.size()));
    head.pieces = static_cast<i64>(number(largest, "pieces"));
    if (head.pieces > (end - begin) / each)
        throw DamagedCheckpoint(place, str("tensor '", head.name, "' has ", head.pieces, " pieces"));
    head.words = begin - first;
    return head;
}

StoredPiece parse_piece(const u64* words, const TensorHead& head, const std::string& place)
{
    const std::size_t d = head.shape.size();
    const auto number = [](u64 word) { return static_cast<i64>(std::min(word, largest)); };
    StoredPiece piece{number(words[0]), number(words[1]), number(words[2]), {}};
    for (std::size_t i = 0; i < d; ++i) {
        piece.box.offset.push_back(number(words[3 + i]));
        piece.box.shape.push_back(number(words[3 + d + i]));
    }
    if (!is_inside(piece.box, head.shape))
        throw DamagedCheckpoint(place, str("tensor '", head.name, "' of shape ", print_shape(head.shape),
                                           " has a piece ", print_box(piece.box)));
    return piece;
}

std::vector<TensorRecord> parse_records(const std::vector<u64>& words, const std::string& place)
{
    std::vector<TensorRecord> records;
    const auto end = static_cast<i64>(words.size());
    for (i64 at = 0; at < end;) {
        const TensorHead head =
            read_head([&](i64 begin, i64 count, u64* to) { std::copy_n(words.data() + begin, count, to); },
                      at, end, place);
        at += head.words;
        TensorRecord record{head.name, head.type, head.shape, {}};
        for (i64 i = 0; i < head.pieces; ++i, at += words_of_piece(static_cast<i64>(head.shape.size())))
            record.pieces.push_back(parse_piece(words.data() + at, head, place));
        records.push_back(std::move(record));
    }
    return records;
}

} // namespace trivium
