#pragma once
// GGUF, version 3 (docs/gguf.md of https://github.com/ggml-org/ggml), the format of llama.cpp's models:
//
//   "GGUF", u32 3, u64 number of tensors, u64 number of keys
//   keys      name, type of the value, value
//   tensors   name, number of dimensions, dimensions (innermost first), type, offset in the data
//   data      each tensor begins at a multiple of 32 bytes of the file
//
// Little endian. A text is its length (u64) and its bytes.
#include "base/units.hpp"
#include "io/files/files.hpp"
#include "ir/type.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

/// Types of tensors, by their numbers in the format. q8_0: blocks of 32 values of a row, an f16 and 32
/// integers of 8 bits that it multiplies.
enum class GgufType : std::uint32_t { f32 = 0, f16 = 1, q8_0 = 8, bf16 = 30 };

inline constexpr i64 q8_0_block = 32; ///< values

/// The keys of a file with their values, in order.
class GgufKeys {
public:
    void add_u32(std::string_view key, i64 value); ///< \pre value fits
    void add_f32(std::string_view key, double value);
    void add_flag(std::string_view key, bool value);
    void add_text(std::string_view key, std::string_view value);
    void add_texts(std::string_view key, const std::vector<std::string>& values);
    void add_f32s(std::string_view key, const std::vector<float>& values);
    void add_i32s(std::string_view key, const std::vector<std::int32_t>& values);

    const std::string& bytes() const { return bytes_; } ///< as the format stores them
    u64 count() const { return count_; }

private:
    void add(std::string_view key, std::uint32_t type);
    void add_list(std::string_view key, std::uint32_t type, std::size_t count);

    std::string bytes_;
    u64 count_ = 0;
};

struct GgufTensorInfo {
    std::string name;
    Shape shape;   ///< outermost first
    GgufType type; ///< q8_0: the innermost extent is a multiple of 32
};

/// Writes a file front to back.
class GgufWriter {
public:
    /// Creates or truncates `path`, and writes all but the data. IoError.
    GgufWriter(const std::string& path, const GgufKeys& keys, std::vector<GgufTensorInfo> tensors);

    /// Appends values of one tensor or of several, row-major, in the order of the tensors. Rounds to nearest
    /// even; q8_0 divides a block by the largest magnitude / 127 as f16. UserError if a value of an f16 or a
    /// q8_0 is not finite, or too large; IoError. \pre the tensors have room for them
    void write(std::span<const float> values);
    /// IoError. Does not sync. \pre all values have been written
    void close();

    Bytes bytes() const { return bytes_; } ///< size of all tensors

private:
    void begin_next();
    template <class Stored>
    void write_as(std::span<const float> values);
    void write_blocks(std::span<const float> values);
    void require_in_range(std::span<const float> values, float limit) const;

    FileWriter file_;
    std::vector<GgufTensorInfo> tensors_;
    std::size_t tensor_ = 0;  ///< that is written now
    i64 left_ = 0;            ///< its values that are missing
    std::vector<float> rest_; ///< of a q8_0: values of a block that is not complete
    Bytes bytes_ = 0;
};

} // namespace trivium
