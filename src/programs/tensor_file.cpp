#include "programs/tensor_file.hpp"

#include "base/check.hpp"
#include "io/checkpoint/box.hpp"
#include "io/hugging_face/safetensors.hpp"

#include <algorithm>
#include <memory>
#include <span>

namespace trivium {

namespace {

const char* stored_name(DType type)
{
    switch (type) {
    case DType::f64: return "F64";
    case DType::f32: return "F32";
    case DType::bf16: return "BF16";
    case DType::i32: return "I32";
    default: break;
    }
    throw InternalError(__FILE__, __LINE__, str("a tensor of ", name_of(type)));
}

constexpr const char* half = "F16";

/// "F32 [8, 16]"
std::string text_of(const std::string& type, const Shape& shape) { return type + " " + print_shape(shape); }

void require_tensor(const SafetensorsReader& reader, const Graph& graph, const Value& value,
                    const std::string& path)
{
    const SafetensorsEntry* entry = reader.find(value.name);
    const std::string wanted = text_of(stored_name(value.type.dtype), value.type.shape),
                      place = source_place(graph, value.line) + "%" + value.name;
    if (!entry)
        throw UserError({path, str("has no tensor '", value.name, "'"),
                         str(place, " is ", value.type, " and no op computes it"),
                         str("add the tensor as ", wanted, ", or run without --inputs")});
    const bool fits = entry->type == stored_name(value.type.dtype) ||
                      (entry->type == half && is_floating(value.type.dtype));
    if (!fits || entry->shape != value.type.shape)
        throw UserError({path,
                         str("tensor '", value.name, "' is ", text_of(entry->type, entry->shape), ", but ",
                             place, " is ", wanted),
                         "shape and type must be those of the graph", "correct the tensor or the graph"});
}

TensorBytes read_whole(const SafetensorsReader& reader, const Value& value)
{
    const SafetensorsEntry& entry = *reader.find(value.name);
    TensorBytes bytes(static_cast<std::size_t>(value.type.bytes()));
    if (entry.type != half) {
        reader.read(entry, Bytes{0}, std::span(bytes));
        return bytes;
    }
    std::vector<float> numbers(static_cast<std::size_t>(value.type.elements()));
    reader.read(entry, i64{0}, std::span(numbers));
    with_type(value.type.dtype, [&](auto t) {
        using T = decltype(t);
        std::ranges::transform(numbers, reinterpret_cast<T*>(bytes.data()), [](float x) { return T(x); });
    });
    return bytes;
}

} // namespace

TensorSource file_source(const Graph& global, const std::string& path)
{
    const auto reader = std::make_shared<const SafetensorsReader>(SafetensorsReader::open(path));
    for (const Value& value : global.values)
        if (!value.producer && value.role != Role::carry)
            require_tensor(*reader, global, value, path);
    return [reader](const Value& value, const Box& box, std::byte* to) {
        if (value.role == Role::carry)
            std::fill_n(to, element_count(box.shape) * size_of(value.type.dtype), std::byte{0});
        else
            copy_box(value.type, read_whole(*reader, value).data(), box, to);
    };
}

void write_tensors(const std::string& path, const std::vector<NamedTensor>& tensors)
{
    std::vector<SafetensorsEntry> entries;
    for (const NamedTensor& tensor : tensors)
        entries.push_back({tensor.name, stored_name(tensor.type.dtype), tensor.type.shape});
    const std::string header = print_safetensors_header(entries, {});
    replace_file(path, [&](const std::string& temporary) {
        FileWriter file(temporary);
        file.write(header.data(), static_cast<Bytes>(header.size()));
        for (const NamedTensor& tensor : tensors)
            file.write(tensor.data.data(), static_cast<Bytes>(tensor.data.size()));
        file.close();
    });
}

} // namespace trivium
