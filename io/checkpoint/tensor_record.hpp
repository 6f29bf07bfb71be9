#pragma once
// A tensor and where its pieces lie, in 64-bit words: as ranks tell each other, and as the index holds it.
//
//   name bytes, the name in as many words as it needs (zeros behind it), type, dimensions d, shape [d],
//   pieces, and for each piece: shard, number among the shard's pieces of this tensor, offset in the shard's
//   data in bytes, offset [d], shape [d]
#include "io/checkpoint/checkpoint.hpp"

#include <functional>

namespace trivium {

struct StoredPiece {
    i64 shard = 0;
    i64 number = 0;   ///< 0: the dataset is called like the tensor; k: NAME@k
    Bytes offset = 0; ///< in the shard's data
    Box box;

    bool operator==(const StoredPiece&) const = default;
};

struct TensorRecord {
    std::string name;
    DType type = DType::f32;
    Shape shape;
    std::vector<StoredPiece> pieces;
};

/// "NAME" or "NAME@2".
std::string dataset_name(const std::string& tensor, i64 number);

/// Words of a piece of a tensor of so many dimensions.
constexpr i64 words_of_piece(i64 dimensions) { return 3 + 2 * dimensions; }

void append(std::vector<u64>& words, const TensorRecord& record);

/// What of a record comes before its pieces.
struct TensorHead {
    std::string name;
    DType type = DType::f32;
    Shape shape;
    i64 pieces = 0;
    i64 words = 0; ///< of the head
};

/// Gives words [begin, begin + count) of where records are.
using ReadWords = std::function<void(i64 begin, i64 count, u64* to)>;

/// The head of the record that begins at word `begin`.
/// \throws DamagedCheckpoint, about `place`, where there is none, or one that does not end before word `end`
TensorHead read_head(const ReadWords& read, i64 begin, i64 end, const std::string& place);

/// From words_of_piece words. \throws as read_head
StoredPiece parse_piece(const u64* words, const TensorHead& head, const std::string& place);

/// All records in `words`. \throws as read_head
std::vector<TensorRecord> parse_records(const std::vector<u64>& words, const std::string& place);

} // namespace trivium
