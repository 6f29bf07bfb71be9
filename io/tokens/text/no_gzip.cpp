// A build without zlib.
#include "io/tokens/text/decompressor.hpp"

namespace trivium {

std::unique_ptr<Decompressor> make_gzip_decompressor() { return nullptr; }

} // namespace trivium
