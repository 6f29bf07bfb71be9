#include "io/hugging_face/safetensors.hpp"

#include "base/check.hpp"
#include "io/checkpoint/box.hpp"
#include "io/files/files.hpp"
#include "io/files/strict_json.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace trivium {

using Json = nlohmann::json;

namespace {

constexpr Bytes length_bytes = 8;

/// Bits per element; 0 for an unknown type.
i64 bits_of(std::string_view type)
{
    static constexpr std::array<std::pair<std::string_view, i64>, 21> types{
        {{"F32", 32},    {"BF16", 16},   {"F16", 16},        {"F64", 64},        {"BOOL", 8},
         {"U8", 8},      {"I8", 8},      {"U16", 16},        {"I16", 16},        {"U32", 32},
         {"I32", 32},    {"U64", 64},    {"I64", 64},        {"C64", 64},        {"F8_E4M3", 8},
         {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6},
         {"F4", 4}}};
    for (const auto& [name, bits] : types)
        if (name == type)
            return bits;
    return 0;
}

[[noreturn]] void refuse(const std::string& place, const std::string& problem)
{
    throw UserError({place, problem, "it is not a safetensors file, or it is damaged",
                     "get the file again from where it came from"});
}

/// Size of a tensor; nullopt if its type is unknown, or its size overflows i64 or is not a whole number of
/// bytes.
std::optional<Bytes> bytes_of(const std::string& type, const Shape& shape)
{
    const std::optional<i64> count = safe_count(shape);
    i64 bits = 0;
    if (!count || bits_of(type) == 0 || __builtin_mul_overflow(*count, bits_of(type), &bits) || bits % 8 != 0)
        return std::nullopt;
    return bits / 8;
}

/// A list of non-negative integers; nullopt if `value` is something else.
std::optional<std::vector<i64>> numbers(const Json& value)
{
    std::vector<i64> result;
    if (!value.is_array())
        return std::nullopt;
    for (const Json& entry : value) {
        if (!entry.is_number_integer() || entry.get<i64>() < 0) // get() wraps numbers above i64
            return std::nullopt;
        result.push_back(entry.get<i64>());
    }
    return result;
}

SafetensorsEntry parse_entry(const std::string& name, const Json& value, const std::string& place)
{
    const std::string tensor = "tensor " + in_quotes(name);
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets"))
        refuse(place, tensor + " needs exactly dtype, shape and data_offsets");
    if (!value["dtype"].is_string() || bits_of(value["dtype"].get_ref<const std::string&>()) == 0)
        refuse(place, tensor + " has an unknown type");
    const auto shape = numbers(value["shape"]), offsets = numbers(value["data_offsets"]);
    if (!shape || !offsets || offsets->size() != 2 || (*offsets)[1] < (*offsets)[0])
        refuse(place, tensor + " has an invalid shape or invalid offsets");
    SafetensorsEntry entry{name, value["dtype"].get<std::string>(), *shape, (*offsets)[0],
                           (*offsets)[1] - (*offsets)[0]};
    if (bytes_of(entry.type, entry.shape) != entry.bytes)
        refuse(place, str(tensor, " has ", entry.bytes, " bytes, which do not match its shape and type"));
    return entry;
}

} // namespace

SafetensorsHeader parse_safetensors_header(std::string_view front, Bytes file_bytes, const std::string& place)
{
    require_no_pointer(front, place);
    if (static_cast<Bytes>(front.size()) < length_bytes || file_bytes < length_bytes)
        refuse(place, str("has ", file_bytes, " bytes, too few for a header"));
    u64 length = 0;
    for (std::size_t i = 0; i < length_bytes; ++i)
        length |= u64{static_cast<unsigned char>(front[i])} << (8 * i);
    if (length > static_cast<u64>(std::min(max_header_bytes, file_bytes - length_bytes)) ||
        length > front.size() - length_bytes)
        refuse(place, str("claims a header of ", length, " bytes, more than ",
                          length > static_cast<u64>(max_header_bytes) ? "any model needs" : "it has"));
    SafetensorsHeader header;
    header.data_begin = length_bytes + static_cast<Bytes>(length);
    const Json json = parse_strict_json(front.substr(length_bytes, length), place + " (its header)", 3);
    if (!json.is_object())
        refuse(place, "has a header that is not an object");
    for (const auto& [name, value] : json.items()) {
        if (name != "__metadata__") {
            header.tensors.push_back(parse_entry(name, value, place));
            continue;
        }
        if (!value.is_object())
            refuse(place, "has metadata that is not an object");
        for (const auto& [key, text] : value.items()) {
            if (!text.is_string())
                refuse(place, "has metadata " + in_quotes(key) + " that is not a string");
            header.metadata[key] = text.get<std::string>();
        }
    }
    std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
        return std::pair(a.begin, a.bytes) < std::pair(b.begin, b.bytes);
    });
    Bytes end = 0;
    for (const SafetensorsEntry& entry : header.tensors) {
        if (entry.begin != end)
            refuse(place, str("tensor ", in_quotes(entry.name), " begins at ", entry.begin,
                              ", the one before ends at ", end));
        end += entry.bytes; // no overflow: it is the entry's second offset
    }
    if (end != file_bytes - header.data_begin)
        refuse(place, str("has ", file_bytes - header.data_begin, " bytes of data, its tensors need ", end));
    return header;
}

std::string print_safetensors_header(std::vector<SafetensorsEntry>& tensors,
                                     const std::map<std::string, std::string>& metadata)
{
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    if (!metadata.empty())
        json["__metadata__"] = metadata;
    Bytes end = 0;
    for (SafetensorsEntry& tensor : tensors) {
        const std::optional<Bytes> bytes = bytes_of(tensor.type, tensor.shape);
        TRV_CHECK(bytes && !json.contains(tensor.name), tensor.name,
                  " has an invalid size or a duplicate name");
        tensor.begin = end;
        tensor.bytes = *bytes;
        end += tensor.bytes;
        json[tensor.name] = {
            {"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, end}}};
    }
    std::string text = json.dump();
    text.resize(static_cast<std::size_t>(round_up(static_cast<i64>(text.size()), 8)), ' ');
    std::string front;
    for (int i = 0; i < length_bytes; ++i)
        front += static_cast<char>(text.size() >> (8 * i) & 0xff);
    return front + text;
}

} // namespace trivium
