#pragma once
// The texts of a Parquet file.
#include "base/units.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trivium {

/// A column of strings. A file divides its rows into row groups. Not thread-safe. Holds a page and a
/// dictionary of the file.
class ParquetColumn {
public:
    virtual ~ParquetColumn() = default;

    /// The number of rows of each row group.
    virtual const std::vector<i64>& group_rows() const = 0;
    /// Starts with the first row of a group. Errors as next().
    virtual void begin_group(std::size_t group) = 0;
    /// The next rows of the group, of about `bytes` bytes; nullopt for a null. None at the end of the group.
    /// UserError if the file is damaged. \pre begin_group
    virtual std::vector<std::optional<std::string>> next(std::size_t bytes) = 0;
};

/// Whether to read this file as Parquet, by its suffix.
bool is_parquet(const std::string& path);

/// Opens the column of this name. Null if this build has no Apache Arrow. UserError if the file is missing,
/// not a Parquet file or damaged, or if the column is missing, nested, or not one of strings. (Strings, large
/// strings, string views and dictionaries of them are the same in a Parquet file.)
std::unique_ptr<ParquetColumn> open_parquet(const std::string& path, const std::string& column);

} // namespace trivium
