#include "ir/text/text_cursor.hpp"

#include "ir/attributes.hpp"
#include "ir/text/text.hpp"

#include <cctype>

namespace trivium {

namespace {

constexpr const char* form = "write a sharding as <data,tensor+data?,-|tensor:sum>";

/// The type called `name`, unless all floating types are f64.
std::string widened(const std::string& name, DType compute)
{
    const auto type = tensor_type_named(name);
    return compute == DType::f64 && type && is_floating(*type) ? name_of(DType::f64) : name;
}

} // namespace

std::string Cursor::meaning_of_type(const std::string& name) const
{
    return widened(name == "compute" ? name_of(meanings_.compute) : name, meanings_.compute);
}

std::string Cursor::meaning_of(const std::string& attribute, std::string text, const std::string& place) const
{
    if (attribute == "dtype")
        return meaning_of_type(text);
    const auto named = [&](const ListName& list) { return list.name == attribute; };
    return std::ranges::any_of(list_names, named) ? evaluated_list(text, meanings_.sizes, place) : text;
}

std::string Cursor::axis()
{
    skip();
    const std::size_t begin = at_;
    const auto digits = [&] {
        const std::size_t first = at_;
        while (at_ < line_.size() && std::isdigit(static_cast<unsigned char>(line_[at_])))
            ++at_;
        return at_ > first;
    };
    while (at_ < line_.size() && (std::isalnum(static_cast<unsigned char>(line_[at_])) || line_[at_] == '_'))
        ++at_;
    if (begin == at_)
        fail("expected the name of a mesh axis, or '-'", form);
    if (line_.substr(at_, 2) == ":(") {
        at_ += 2;
        if (!digits() || line_.substr(at_, 1) != ")" || (++at_, !digits()))
            fail("expected a part of an axis", "write x:(2)4 for the part of size 4 below a major part of 2");
    }
    return std::string(line_.substr(begin, at_ - begin));
}

Sharding Cursor::sharding()
{
    Sharding made;
    if (starts_with('[') || starts_with('{'))
        fail("expected '<', which begins a sharding", form);
    if (!take("<"))
        return made;
    while (!take(">")) {
        if (take("|")) {
            while (!take(">")) {
                limit(made.partial.size() + made.replicated.size(), 2 * max_mesh_axes + 1, "axes");
                const std::string name = axis();
                want(":");
                const std::string combine = word_in_sharding();
                const auto known = combine_named(combine);
                if (combine == "replicated")
                    made.replicated.push_back(name);
                else if (known)
                    made.partial.push_back({name, *known});
                else
                    fail(str("there is no combiner '", combine, "'"),
                         "use sum, lse, max, min, product, or replicated");
            }
            break;
        }
        if (!made.dims.empty())
            want(",");
        limit(made.dims.size(), max_dims, "dimensions");
        DimSharding dim;
        if (!take("-"))
            do {
                limit(dim.axes.size(), max_mesh_axes, "axes");
                if (starts_with('?')) // "?" alone: open, without axes
                    break;
                dim.axes.push_back(axis());
            } while (take("+"));
        dim.open = take("?");
        if (take("@"))
            dim.priority = static_cast<int>(number(0, max_priority));
        made.dims.push_back(std::move(dim));
    }
    return made;
}

Sharding parse_sharding(std::string_view text, const std::string& place)
{
    Cursor cursor(text, place, 0);
    if (!cursor.starts_with('<'))
        throw UserError({place, str("'", text, "' is not a sharding"), "", form});
    Sharding made = cursor.sharding();
    if (!cursor.done())
        throw UserError({place, str("'", text, "' is not a sharding"), "there is text after it", form});
    return made;
}

} // namespace trivium
