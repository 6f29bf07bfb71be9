#pragma once
// A tensor and the location of its pieces, encoded in 64-bit words, for messages between ranks and for the
// index:
//
//   name bytes, the name (padded with zeros to whole words), type, dimensions d, shape [d],
//   pieces, and for each piece: shard, number among the shard's pieces of this tensor, offset in the shard's
//   data in bytes, offset [d], shape [d]
#include "io/checkpoint/checkpoint.hpp"

#include <functional>

namespace trivium {

struct StoredPiece {
    i64 shard = 0;
    i64 number = 0;   ///< 0: the dataset has the tensor's name; k: NAME@k
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

/// Number of words that encode a piece.
constexpr i64 words_of_piece(i64 dimensions) { return 3 + 2 * dimensions; }

/// Appends the encoded record.
void append(std::vector<u64>& words, const TensorRecord& record);

/// The fields of a record before its pieces.
struct TensorHead {
    std::string name;
    DType type = DType::f32;
    Shape shape;
    i64 pieces = 0;
    i64 words = 0; ///< of the head
};

/// Copies words [begin, begin + count) of the records to `to`.
using ReadWords = std::function<void(i64 begin, i64 count, u64* to)>;

/// Decodes the head of the record that begins at word `begin`. \throws DamagedCheckpoint about `place` if it
/// is invalid or extends past word `end`
TensorHead read_head(const ReadWords& read, i64 begin, i64 end, const std::string& place);

/// Decodes a piece from words_of_piece words. \throws as read_head
StoredPiece parse_piece(const u64* words, const TensorHead& head, const std::string& place);

/// Decodes all records in `words`. \throws as read_head
std::vector<TensorRecord> parse_records(const std::vector<u64>& words, const std::string& place);

} // namespace trivium
