// A build without Apache Arrow.
#include "io/tokens/text/parquet_column.hpp"

namespace trivium {

std::unique_ptr<ParquetColumn> open_parquet(const std::string&, const std::string&) { return nullptr; }

} // namespace trivium
