#include "mpi/collective_layout.hpp"

namespace trivium {

CollectiveLayout::CollectiveLayout(const CollectiveShape& shape, int ranks) : ranks_(ranks)
{
    for (Operand operand : shape.operands) {
        const i64 elements = operand.outer * operand.extent * operand.inner;
        if (shape.kind == CollectiveKind::all_reduce)
            operand.outer = operand.inner = 1, operand.extent = elements;
        if (elements > 0)
            operands_.push_back(operand);
    }
}

i64 CollectiveLayout::elements(int rank) const
{
    i64 all = 0;
    for (const Operand& operand : operands_)
        all += operand.outer * part_of(operand.extent, ranks_, rank).size * operand.inner;
    return all;
}

std::optional<CollectiveLayout::Block> CollectiveLayout::one_row(int rank, i64 begin, i64 end,
                                                                 bool in_part) const
{
    i64 first = 0;
    for (const Operand& operand : operands_) {
        const IndexRange part = part_of(operand.extent, ranks_, rank);
        const i64 row = part.size * operand.inner, elements = operand.outer * row, at = begin - first;
        first += elements;
        if (begin >= first)
            continue;
        const i64 o = at / row;
        if (end > first || (!in_part && part.size < operand.extent && (end - begin) + at > (o + 1) * row))
            return std::nullopt;
        const i64 stride = operand.extent * operand.inner;
        return Block{&operand,   o * stride + part.begin * operand.inner + at % row, stride, at, 0, 1,
                     end - begin};
    }
    return std::nullopt;
}

} // namespace trivium
