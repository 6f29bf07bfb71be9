// A build without Apache Arrow.
#include "io/tokens/text/parquet_rows.hpp"

namespace trivium {

std::unique_ptr<ParquetRows> open_parquet(const std::string&, const RecordRule&) { return nullptr; }

} // namespace trivium
