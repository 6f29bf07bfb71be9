// A build without libzstd.
#include "io/tokens/text/decompressor.hpp"

namespace trivium {

std::unique_ptr<Decompressor> make_zstd_decompressor() { return nullptr; }

} // namespace trivium
