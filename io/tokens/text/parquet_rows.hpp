#pragma once
// The rows of a Parquet file.
#include "io/tokens/text/text_blocks.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trivium {

/// Rows as texts, or as JSON records of chats. A file divides its rows into row groups. Not thread-safe.
class ParquetRows {
public:
    virtual ~ParquetRows() = default;

    /// Whether each row is a JSON object, otherwise it is a text.
    virtual bool are_records() const = 0;
    /// The number of rows of each row group.
    virtual const std::vector<i64>& group_rows() const = 0;
    /// Starts with the first row of a group. Errors as next().
    virtual void begin_group(std::size_t group) = 0;
    /// The next rows of the group, of about `bytes` bytes (records: some rows); nullopt for a null. None at
    /// the end of the group. UserError if the file is damaged. \pre begin_group
    virtual std::vector<std::optional<std::string>> next(std::size_t bytes) = 0;
};

/// Whether to read this file as Parquet, by its suffix.
bool is_parquet(const std::string& path);

/// Opens a file. Its rows are records if the rule looks for chats and the file has the columns of one
/// (has_chat()), otherwise the texts of the column rule.key, of which a page and a dictionary are held. Null
/// if this build has no Apache Arrow. UserError if the file is missing, not a Parquet file or damaged, or if
/// the column is missing, nested, or not one of strings. (Strings, large strings, string views and
/// dictionaries of them are the same in a Parquet file.)
std::unique_ptr<ParquetRows> open_parquet(const std::string& path, const RecordRule& rule);

} // namespace trivium
