#include "ir/general/op_view.hpp"

#include <algorithm>

namespace trivium {

void OpView::require_operands(std::size_t count) const
{
    if (operands() != count)
        fail(str("has ", operands(), " operands, takes ", count), "see docs/ops.md for the ops");
}

const std::vector<i64>& OpView::list(Attr attr, std::optional<std::size_t> length) const
{
    const std::vector<i64>* numbers = op_.attrs->lists.find(attr);
    if (!numbers)
        fail(str("has no attribute '", list_name(attr).name, "'"),
             str("write {", list_name(attr).name, "=…} after its operands"));
    if (length && numbers->size() != *length)
        fail(str("its attribute '", list_name(attr).name, "' has ", numbers->size(), " numbers, must have ",
                 *length),
             "write one per dimension");
    return *numbers;
}

std::vector<i64> OpView::list_or(Attr attr, std::size_t length, i64 otherwise) const
{
    return op_.attrs->lists.find(attr) ? list(attr, length) : std::vector<i64>(length, otherwise);
}

std::vector<i64> OpView::list_or_empty(Attr attr) const
{
    return op_.attrs->lists.find(attr) ? list(attr) : std::vector<i64>{};
}

i64 OpView::number_or(Attr attr, i64 otherwise) const
{
    return op_.attrs->lists.find(attr) ? list(attr, 1)[0] : otherwise;
}

std::vector<std::size_t> OpView::dims(Attr attr, std::size_t rank) const
{
    std::vector<std::size_t> dims;
    for (const i64 dim : list_or_empty(attr)) {
        if (dim < 0 || static_cast<std::size_t>(dim) >= rank)
            fail(str("its attribute '", list_name(attr).name, "' names dimension ", dim, " of a tensor with ",
                     rank),
                 rank > 0 ? str("name dimensions from 0 to ", rank - 1) : "remove it");
        if (lists(dims, static_cast<std::size_t>(dim)))
            fail(str("its attribute '", list_name(attr).name, "' names dimension ", dim, " twice"),
                 "name it once");
        dims.push_back(static_cast<std::size_t>(dim));
    }
    return dims;
}

const Shape& OpView::extents(Attr attr) const
{
    const Shape& shape = list(attr);
    if (shape.size() > max_dims)
        fail(str("its attribute '", list_name(attr).name, "' has more than ", max_dims, " dimensions"),
             "join dimensions");
    i64 elements = 1;
    for (const i64 extent : shape) {
        if (extent < (graph_.at.empty() ? 1 : 0) || (extent > 0 && elements > max_elements / extent))
            fail(str("its attribute '", list_name(attr).name, "' has the extent ", extent),
                 "make every extent positive, and the tensor at most 2^48 elements");
        elements *= std::max<i64>(extent, 1);
    }
    return shape;
}

int RuleMaker::product(std::vector<int> parts)
{
    if (parts.empty())
        return factor(1);
    if (parts.size() == 1)
        return parts[0];
    Factor made{str("f", rule.factors.size()), FactorKind::parallel, 1};
    for (const int part : parts)
        made.size *= rule[part].size;
    made.parts = std::move(parts);
    return add(std::move(made));
}

} // namespace trivium
