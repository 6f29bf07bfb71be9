#include "ir/type.hpp"

#include <ostream>

namespace trivium {

i64 element_count(const Shape& shape)
{
    i64 count = 1;
    for (const i64 extent : shape)
        count *= extent;
    return count;
}

std::string_view name_of(Space space) { return space == Space::device ? "device" : "host"; }

std::string to_string(const TensorType& type)
{
    std::string text = std::string(name_of(type.dtype)) + "[";
    for (std::size_t i = 0; i < type.shape.size(); ++i)
        text += (i ? "," : "") + std::to_string(type.shape[i]);
    return text + "]";
}

std::ostream& operator<<(std::ostream& out, const TensorType& type) { return out << to_string(type); }

} // namespace trivium
