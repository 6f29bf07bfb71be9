#include "io/gguf/gguf_file.hpp"

#include "base/bf16.hpp"
#include "base/check.hpp"
#include "base/f16.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace trivium {

namespace {

static_assert(std::endian::native == std::endian::little, "values are written without conversion");

constexpr Bytes alignment = 32; ///< the format's default

/// Types of keys' values, by their numbers in the format.
enum ValueType : std::uint32_t {
    u32_value = 4,
    i32_value = 5,
    f32_value = 6,
    flag_value = 7,
    text_value = 8,
    list_value = 9
};

template <class T>
void append(std::string& to, T value)
{
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& to, std::string_view text)
{
    append<u64>(to, text.size());
    to += text;
}

Bytes bytes_of(const GgufTensorInfo& tensor)
{
    const i64 values = element_count(tensor.shape);
    switch (tensor.type) {
    case GgufType::f32: return values * 4;
    case GgufType::q8_0: return values / q8_0_block * static_cast<Bytes>(sizeof(f16) + q8_0_block);
    default: return values * 2;
    }
}

} // namespace

void GgufKeys::add(std::string_view key, std::uint32_t type)
{
    append_text(bytes_, key);
    append(bytes_, type);
    ++count_;
}

void GgufKeys::add_list(std::string_view key, std::uint32_t type, std::size_t count)
{
    add(key, list_value);
    append(bytes_, type);
    append<u64>(bytes_, count);
}

void GgufKeys::add_u32(std::string_view key, i64 value)
{
    TRV_CHECK(value >= 0 && value < i64{1} << 32, key, " is ", value);
    add(key, u32_value);
    append(bytes_, static_cast<std::uint32_t>(value));
}

void GgufKeys::add_f32(std::string_view key, double value)
{
    add(key, f32_value);
    append(bytes_, static_cast<float>(value));
}

void GgufKeys::add_flag(std::string_view key, bool value)
{
    add(key, flag_value);
    bytes_ += static_cast<char>(value);
}

void GgufKeys::add_text(std::string_view key, std::string_view value)
{
    add(key, text_value);
    append_text(bytes_, value);
}

void GgufKeys::add_texts(std::string_view key, const std::vector<std::string>& values)
{
    add_list(key, text_value, values.size());
    for (const std::string& value : values)
        append_text(bytes_, value);
}

void GgufKeys::add_f32s(std::string_view key, const std::vector<float>& values)
{
    add_list(key, f32_value, values.size());
    for (const float value : values)
        append(bytes_, value);
}

void GgufKeys::add_i32s(std::string_view key, const std::vector<std::int32_t>& values)
{
    add_list(key, i32_value, values.size());
    for (const std::int32_t value : values)
        append(bytes_, value);
}

GgufWriter::GgufWriter(const std::string& path, const GgufKeys& keys, std::vector<GgufTensorInfo> tensors)
    : file_(path), tensors_(std::move(tensors))
{
    std::string head = "GGUF";
    append<std::uint32_t>(head, 3);
    append<u64>(head, tensors_.size());
    append<u64>(head, keys.count());
    head += keys.bytes();
    Bytes offset = 0;
    for (const GgufTensorInfo& tensor : tensors_) {
        TRV_CHECK(tensor.type != GgufType::q8_0 || tensor.shape.back() % q8_0_block == 0, tensor.name);
        append_text(head, tensor.name);
        append(head, static_cast<std::uint32_t>(tensor.shape.size()));
        for (std::size_t i = tensor.shape.size(); i-- > 0;)
            append(head, tensor.shape[i]);
        append(head, tensor.type);
        append(head, offset);
        offset += round_up(bytes_of(tensor), alignment);
        bytes_ += bytes_of(tensor);
    }
    head.resize(static_cast<std::size_t>(round_up(static_cast<Bytes>(head.size()), alignment)), '\0');
    file_.write(head);
    begin_next();
}

void GgufWriter::begin_next()
{
    while (tensor_ < tensors_.size() && (left_ = element_count(tensors_[tensor_].shape)) == 0)
        ++tensor_; // without elements
}

void GgufWriter::require_in_range(std::span<const float> values, float limit) const
{
    const auto bad = std::ranges::find_if(values, [&](float x) { return !(std::abs(x) < limit); });
    if (bad == values.end())
        return;
    const bool finite = std::isfinite(*bad);
    throw UserError(
        {tensors_[tensor_].name, str("has the value ", *bad),
         finite ? str("numbers of this type are below ", limit) : "llama.cpp could not compute with it",
         finite ? "export with --type bf16 or f32" : "export an earlier checkpoint"});
}

template <class Stored>
void GgufWriter::write_as(std::span<const float> values)
{
    std::vector<Stored> stored;
    for (; !values.empty(); values = values.subspan(stored.size())) {
        const auto part = values.first(std::min<std::size_t>(values.size(), std::size_t{1} << 18));
        stored.clear();
        for (const float value : part)
            stored.push_back(Stored(value));
        file_.write(stored.data(), static_cast<Bytes>(stored.size() * sizeof(Stored)));
    }
}

void GgufWriter::write_blocks(std::span<const float> values)
{
    rest_.insert(rest_.end(), values.begin(), values.end());
    const std::size_t blocks = rest_.size() / q8_0_block;
    for (std::size_t block = 0; block < blocks; ++block) {
        const std::span<const float> of_block = std::span(rest_).subspan(block * q8_0_block, q8_0_block);
        float largest = 0;
        for (const float value : of_block)
            largest = std::max(largest, std::abs(value));
        const f16 step(largest / 127);
        std::array<std::int8_t, q8_0_block> steps{}; // all 0 if the step is
        for (std::size_t i = 0; i < q8_0_block && step > 0; ++i)
            steps[i] = static_cast<std::int8_t>(std::clamp(std::round(of_block[i] / step), -127.0f, 127.0f));
        file_.write(&step, sizeof step);
        file_.write(steps.data(), q8_0_block);
    }
    rest_.erase(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(blocks * q8_0_block));
}

void GgufWriter::write(std::span<const float> values)
{
    while (!values.empty()) {
        TRV_CHECK(tensor_ < tensors_.size(), "more values than the tensors have");
        const GgufTensorInfo& tensor = tensors_[tensor_];
        const auto part = values.first(std::min(values.size(), static_cast<std::size_t>(left_)));
        switch (tensor.type) {
        case GgufType::f32: file_.write(part.data(), static_cast<Bytes>(part.size_bytes())); break;
        case GgufType::bf16: write_as<bf16>(part); break;
        case GgufType::f16:
            require_in_range(part, f16::limit);
            write_as<f16>(part);
            break;
        case GgufType::q8_0:
            require_in_range(part, f16::limit * 127);
            write_blocks(part);
            break;
        }
        values = values.subspan(part.size());
        left_ -= static_cast<i64>(part.size());
        if (left_ > 0)
            continue;
        const Bytes bytes = bytes_of(tensor);
        file_.write(std::string(static_cast<std::size_t>(round_up(bytes, alignment) - bytes), '\0'));
        ++tensor_;
        begin_next();
    }
}

void GgufWriter::close()
{
    TRV_CHECK(tensor_ == tensors_.size(), "the tensors are not complete");
    file_.close();
}

} // namespace trivium
