#pragma once
// Formats of compressed text.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace trivium {

class Decompressor {
public:
    struct Step {
        std::size_t taken = 0, made = 0; ///< bytes of the input and of the output
        std::string problem{};           ///< if not empty, the input is damaged
    };

    virtual ~Decompressor() = default;
    /// Takes bytes of `input` and makes at most `room` bytes at `to`. \pre room > 0
    virtual Step decompress(std::string_view input, char* to, std::size_t room) = 0;
    /// Whether all that was begun has ended, so that the file may end here.
    virtual bool is_whole() const = 0;
};

/// RFC 1952, any number of members. Null if this build has no zlib.
std::unique_ptr<Decompressor> make_gzip_decompressor();
/// RFC 8878, any number of frames. Null if this build has no libzstd.
std::unique_ptr<Decompressor> make_zstd_decompressor();

} // namespace trivium
