#pragma once
// Reads a Parquet file as blocks of rows.
#include "io/tokens/text/parquet_rows.hpp"
#include "io/tokens/text/text_blocks.hpp"

namespace trivium {

/// The row groups of a file that begin in a part of its bytes, where all count as equally long. Not
/// thread-safe. Holds one block.
class RowBlocks {
public:
    /// `begin` to `end`: the part, in bytes of the file. `file` and `rule` must outlive this object. With
    /// skip_bad, what cannot be read becomes blocks of Form::none.
    RowBlocks(const TextFile& file, const RecordRule& rule, Bytes begin, Bytes end);

    /// The next block; nullopt at the end. Errors as ParquetRows.
    std::optional<TextBlock> next();

private:
    std::optional<TextBlock> open();
    Bytes begin_of(std::size_t group) const;
    TextBlock make(TextBlock::Form form, i64 rows_until);
    void next_group();

    const TextFile* file_;
    const RecordRule* rule_;
    Bytes begin_, end_;
    bool opened_ = false, first_ = true, in_group_ = false;
    std::unique_ptr<ParquetRows> rows_;
    std::size_t group_ = 0, end_group_ = 0;
    i64 rows_before_ = 0, row_ = 0; ///< of the file before group_; of group_ that were read
    Bytes before_part_ = 0, reported_ = 0;
};

} // namespace trivium
