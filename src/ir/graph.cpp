#include "ir/graph.hpp"

#include "base/check.hpp"

namespace trivium {

namespace {

const Attr& attr(const Attrs& attrs, std::string_view name)
{
    for (const auto& [key, value] : attrs)
        if (key == name)
            return value;
    throw InternalError(__FILE__, __LINE__, str("there is no attribute '", name, "'"));
}

template <class T>
const T& typed_attr(const Attrs& attrs, std::string_view name)
{
    const T* value = std::get_if<T>(&attr(attrs, name));
    TRV_CHECK(value, "attribute '", name, "' has another type");
    return *value;
}

} // namespace

std::string_view name_of(Region region)
{
    static constexpr std::string_view names[] = {"prologue", "microbatch", "epilogue"};
    return names[static_cast<int>(region)];
}

std::string_view name_of(Role role)
{
    static constexpr std::string_view names[] = {"computed", "input", "hyper", "parameter", "state", "constant", "carry"};
    return names[static_cast<int>(role)];
}

std::string_view name_of(Phase phase)
{
    static constexpr std::string_view names[] = {"forward", "backward", "update"};
    return names[static_cast<int>(phase)];
}

ValueId Graph::find(std::string_view wanted) const
{
    for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i].name == wanted)
            return ValueId(i);
    return {};
}

std::vector<ValueId> Graph::with_role(Role role) const
{
    std::vector<ValueId> found;
    for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i].role == role)
            found.emplace_back(i);
    return found;
}

i64 int_attr(const Attrs& attrs, std::string_view name) { return typed_attr<i64>(attrs, name); }
double real_attr(const Attrs& attrs, std::string_view name) { return typed_attr<double>(attrs, name); }
const std::string& text_attr(const Attrs& attrs, std::string_view name) { return typed_attr<std::string>(attrs, name); }

bool has_attr(const Attrs& attrs, std::string_view name)
{
    for (const auto& entry : attrs)
        if (entry.first == name)
            return true;
    return false;
}

} // namespace trivium
