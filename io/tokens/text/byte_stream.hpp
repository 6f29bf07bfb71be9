#pragma once
// Reads a file of text front to back, decompressed.
#include "base/units.hpp"
#include "io/tokens/text/decompressor.hpp"

#include <string>

namespace trivium {

class ByteStream {
public:
    /// Opens a file, pipe or device. What is compressed is told by its first bytes. `begin`: where to start
    /// in a file that is not compressed. UserError if it is missing, or compressed in a format that this
    /// build cannot read, or has the suffix of a compressed file but is none; IoError.
    explicit ByteStream(const std::string& path, Bytes begin = 0);
    ByteStream(const ByteStream&) = delete;
    ByteStream& operator=(const ByteStream&) = delete;
    ~ByteStream();

    /// Appends about `bytes` bytes of text to `to`; fewer only at the end. UserError with the place if the
    /// compressed file is damaged or truncated; IoError.
    void read(std::string& to, std::size_t bytes);
    bool at_end() const { return ended_; } ///< after the last read
    bool is_compressed() const { return decompressor_ != nullptr; }
    /// Bytes of the file that were read.
    Bytes taken() const { return taken_; }

private:
    std::size_t read_file(char* to, std::size_t bytes);
    void decompress(std::string& to, std::size_t bytes);
    void fill();

    std::string path_;
    int descriptor_ = -1;
    std::unique_ptr<Decompressor> decompressor_;
    std::string input_;    ///< bytes of the file
    std::size_t used_ = 0; ///< of input_
    bool file_ended_ = false, ended_ = false;
    Bytes taken_ = 0, made_ = 0;
};

/// ".jsonl" of "a.jsonl.gz"; "" for a name without a suffix.
std::string text_suffix(const std::string& path);
/// Whether the suffix says that ByteStream decompresses it.
bool has_compressed_suffix(const std::string& path);

} // namespace trivium
