#pragma once
// Reads GGUF files, by the format's description (docs/gguf.md of ggml) and without the code under test.
#include "io/temporary_folder.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace trivium {

struct GgufFile {
    struct Tensor {
        std::vector<std::int64_t> shape; ///< outermost first
        std::uint32_t type = 0;          ///< 0 f32, 1 f16, 8 q8_0, 30 bf16
        std::vector<float> values;
        std::vector<float> steps; ///< q8_0: the difference of neighbouring numbers, for each value
    };
    nlohmann::json keys;
    std::vector<std::string> names; ///< of tensors, in order
    std::map<std::string, Tensor> tensors;

    static GgufFile read(const std::string& path)
    {
        GgufFile file;
        file.bytes_ = get(path);
        file.read_all();
        return file;
    }

private:
    template <class T>
    T next()
    {
        T value;
        require(at_ + sizeof value <= bytes_.size());
        std::memcpy(&value, bytes_.data() + at_, sizeof value);
        at_ += sizeof value;
        return value;
    }

    static void require(bool holds)
    {
        if (!holds)
            throw std::runtime_error("not a GGUF file");
    }

    std::string next_text()
    {
        const auto length = next<std::uint64_t>();
        require(length <= bytes_.size() - at_);
        at_ += length;
        return bytes_.substr(at_ - length, length);
    }

    nlohmann::json next_value(std::uint32_t type)
    {
        switch (type) {
        case 4: return next<std::uint32_t>();
        case 5: return next<std::int32_t>();
        case 6: return next<float>();
        case 7: return next<std::uint8_t>() != 0;
        case 8: return next_text();
        case 9: {
            nlohmann::json list = nlohmann::json::array();
            const auto of = next<std::uint32_t>();
            for (auto left = next<std::uint64_t>(); left > 0; --left)
                list.push_back(next_value(of));
            return list;
        }
        default: require(false);
        }
        return {};
    }

    static float half(std::uint16_t bits)
    {
        const int exponent = bits >> 10 & 31, fraction = bits & 1023;
        const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                         : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
        return bits >> 15 ? -size : size;
    }

    void read_values(Tensor& tensor)
    {
        std::size_t count = 1;
        for (const std::int64_t extent : tensor.shape)
            count *= static_cast<std::size_t>(extent);
        float step = 0;
        for (std::size_t i = 0; i < count; ++i)
            switch (tensor.type) {
            case 0: tensor.values.push_back(next<float>()); break;
            case 1: tensor.values.push_back(half(next<std::uint16_t>())); break;
            case 8:
                if (i % 32 == 0)
                    step = half(next<std::uint16_t>());
                tensor.values.push_back(static_cast<float>(next<std::int8_t>()) * step);
                tensor.steps.push_back(step);
                break;
            case 30: {
                const std::uint32_t wide = std::uint32_t{next<std::uint16_t>()} << 16;
                float value;
                std::memcpy(&value, &wide, sizeof value);
                tensor.values.push_back(value);
                break;
            }
            default: require(false);
            }
    }

    void read_all()
    {
        require(bytes_.starts_with("GGUF"));
        at_ = 4;
        require(next<std::uint32_t>() == 3);
        const auto count = next<std::uint64_t>(), key_count = next<std::uint64_t>();
        for (std::uint64_t i = 0; i < key_count; ++i) {
            const std::string key = next_text();
            require(!keys.contains(key));
            keys[key] = next_value(next<std::uint32_t>());
        }
        std::vector<std::size_t> offsets;
        for (std::uint64_t i = 0; i < count; ++i) {
            names.push_back(next_text());
            require(!tensors.contains(names.back()));
            Tensor& tensor = tensors[names.back()];
            for (auto left = next<std::uint32_t>(); left > 0; --left)
                tensor.shape.insert(tensor.shape.begin(), next<std::int64_t>());
            tensor.type = next<std::uint32_t>();
            offsets.push_back(next<std::uint64_t>());
            require(offsets.back() % 32 == 0);
        }
        const std::size_t data = (at_ + 31) / 32 * 32;
        for (std::size_t i = 0; i < count; ++i) {
            require(data + offsets[i] == (at_ + 31) / 32 * 32); // no holes but for the alignment
            at_ = data + offsets[i];
            read_values(tensors[names[i]]);
        }
        require((at_ + 31) / 32 * 32 == bytes_.size());
    }

    std::string bytes_;
    std::size_t at_ = 0;
};

} // namespace trivium
