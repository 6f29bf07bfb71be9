#pragma once
// Parquet files by Apache Arrow: only for its sources.
#include "base/check.hpp"
#include "io/tokens/text/parquet_rows.hpp"

#include <parquet/file_reader.h>

namespace trivium {

inline constexpr const char* unreadable_parquet = "is not a Parquet file that can be read";

[[noreturn]] void refuse_parquet(const std::string& path, const std::string& problem,
                                 const std::string& reason);

/// Calls the library; what it throws becomes a UserError.
template <class Call>
auto checked_parquet(const std::string& path, const std::string& problem, const Call& call)
{
    try {
        return call();
    } catch (const Error&) {
        throw;
    } catch (const std::exception& error) {
        const std::string reason = error.what();
        refuse_parquet(path, problem, reason.substr(0, reason.find('\n')));
    }
}

struct ParquetFile {
    std::string path;
    std::unique_ptr<parquet::ParquetFileReader> reader;
    std::vector<i64> group_rows;
};

/// Rows as JSON objects: of the columns that records of chats have, and `key`. Nulls are left out.
std::unique_ptr<ParquetRows> open_parquet_records(ParquetFile file, const std::string& key);

} // namespace trivium
