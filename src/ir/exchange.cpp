#include "ir/exchange.hpp"

#include "base/check.hpp"
#include "ir/limits.hpp"
#include "ir/ops/op_table.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// The boxes of a list of offsets and extents. \pre it has 2 `dims` numbers for each of `count` boxes
std::vector<Box> boxes_of(const std::vector<i64>& numbers, std::size_t dims, std::size_t count)
{
    std::vector<Box> boxes;
    boxes.reserve(count);
    for (auto at = numbers.begin(); boxes.size() < count;) {
        const auto middle = at + static_cast<std::ptrdiff_t>(dims),
                   end = middle + static_cast<std::ptrdiff_t>(dims);
        boxes.push_back({Shape(at, middle), Shape(middle, end)});
        at = end;
    }
    return boxes;
}

} // namespace

std::optional<Box> common_part(const Box& a, const Box& b)
{
    Box both = a;
    for (std::size_t d = 0; d < a.shape.size(); ++d) {
        both.offset[d] = std::max(a.offset[d], b.offset[d]);
        both.shape[d] = std::min(a.offset[d] + a.shape[d], b.offset[d] + b.shape[d]) - both.offset[d];
        if (both.shape[d] <= 0)
            return {};
    }
    return both;
}

i64 elements_lacking(const Box& have, const Box& need)
{
    i64 common = 1;
    for (std::size_t d = 0; d < need.shape.size(); ++d)
        common *= std::max<i64>(0, std::min(have.offset[d] + have.shape[d], need.offset[d] + need.shape[d]) -
                                       std::max(have.offset[d], need.offset[d]));
    return element_count(need.shape) - common;
}

bool is_contiguous(const Box& part, const Box& box)
{
    bool whole = true; // in the dimensions so far, from the last one
    for (std::size_t d = box.shape.size(); d-- > 0;) {
        if (!whole && part.shape[d] != 1)
            return false;
        whole = whole && part.shape[d] == box.shape[d];
    }
    return true;
}

std::string text_of(const Box& box)
{
    std::string text = "[";
    for (std::size_t d = 0; d < box.shape.size(); ++d)
        text += str(d ? "," : "", box.offset[d], ":", box.offset[d] + box.shape[d]);
    return text + "]";
}

Bytes box_exchange_scratch(const BoxExchangeShape& shape, int rank)
{
    Bytes bytes = 0;
    const auto add = [&](std::size_t, const Box& part, const Box& box) {
        if (!is_contiguous(part, box))
            bytes += round_up(element_count(part.shape) * size_of(shape.type), box_alignment);
    };
    for_each_part(shape, rank, add, add);
    return bytes;
}

Bytes box_exchange_sent(const BoxExchangeShape& shape, int rank)
{
    Bytes bytes = 0;
    for_each_part(
        shape, rank,
        [&](std::size_t, const Box& part, const Box&) {
            bytes += element_count(part.shape) * size_of(shape.type);
        },
        [](std::size_t, const Box&, const Box&) {});
    return bytes;
}

double mean_box_exchange_sent(const BoxExchangeShape& shape)
{
    double bytes = 0;
    for (std::size_t rank = 0; rank < shape.owned.size(); ++rank)
        bytes += static_cast<double>(box_exchange_sent(shape, static_cast<int>(rank)));
    return bytes / static_cast<double>(std::max<std::size_t>(shape.owned.size(), 1));
}

i64 expected_rows(const Graph& graph, const Op& op)
{
    if (const auto* rows = op.attrs->lists.find(Attr::expected))
        return rows->front();
    const auto* back = op.attrs->lists.find(Attr::backwards);
    return graph[back && back->front() ? op.results[0] : op.operands[0]].type.shape[1];
}

BoxExchangeShape exchange_of(const Graph& graph, const Op& op)
{
    const TensorType& type = graph[op.operands[0]].type;
    const auto ranks = static_cast<std::size_t>(graph.mesh.ranks_along(*op.attrs->axis));
    const auto boxes = [&](Attr list) {
        const std::vector<i64>* numbers = op.attrs->lists.find(list);
        TRV_CHECK(numbers && numbers->size() == 2 * type.shape.size() * ranks, place_of(graph, op),
                  ": its boxes do not fit its group");
        return boxes_of(*numbers, type.shape.size(), ranks);
    };
    return {type.dtype, boxes(Attr::owned), boxes(Attr::needed)};
}

int exchange_rank(const Graph& graph, const Op& op)
{
    if (graph.at.empty())
        return 0;
    const i64 rank = graph.mesh.rank(graph.at);
    if (*op.attrs->axis == world_axis)
        return static_cast<int>(rank);
    const std::vector<i64> group = graph.mesh.group(graph.at, {*op.attrs->axis});
    return static_cast<int>(std::find(group.begin(), group.end(), rank) - group.begin());
}

void check_exchange(const Graph& graph, const Op& op)
{
    const auto fail = [&](const std::string& problem, const std::string& remedy) {
        throw UserError({place_of(graph, op), problem, "", remedy});
    };
    const i64 ranks = graph.mesh.ranks_along(*op.attrs->axis);
    if (graph.at.empty() && ranks > 1)
        fail(str("has boxes of each rank along '", *op.attrs->axis,
                 "', but the graph is not that of one rank"),
             "write a line `at`");
    const std::size_t dims = graph[op.operands[0]].type.shape.size();
    for (const auto& [list, name] : {std::pair{Attr::owned, "owned"}, std::pair{Attr::needed, "needed"}}) {
        const std::vector<i64>& numbers = *op.attrs->lists.find(list);
        if (numbers.size() != 2 * dims * static_cast<std::size_t>(ranks))
            fail(str("its attribute '", name, "' has ", numbers.size(), " numbers, must have ",
                     2 * dims * static_cast<std::size_t>(ranks)),
                 str("list ", dims, " offsets and ", dims, " extents for each of the ", ranks,
                     " ranks along '", *op.attrs->axis, "'"));
        for (const Box& box : boxes_of(numbers, dims, static_cast<std::size_t>(ranks))) {
            i64 elements = 1;
            const auto is_far = [](i64 offset) { return offset < -max_elements || offset > max_elements; };
            for (std::size_t d = 0; d < dims; ++d) {
                const i64 extent = box.shape[d], limit = max_elements / std::max<i64>(elements, 1);
                if (extent < 0 || extent > limit || is_far(box.offset[d]))
                    fail(str("its attribute '", name, "' has a box at ", box.offset[d], " with the extent ",
                             extent, " in dimension ", d),
                         "make no extent negative, and each box at most 2^48 elements, from -2^48 to 2^48");
                elements *= std::max<i64>(extent, 1);
            }
        }
    }
    const BoxExchangeShape shape = exchange_of(graph, op);
    const auto own = static_cast<std::size_t>(exchange_rank(graph, op));
    const auto require_shape = [&](ValueId v, const Box& box, const char* verb) {
        if (const TensorType& type = graph[v].type; type.shape != box.shape)
            fail(str("%", graph[v].name, " is ", type, ", but rank ", own, " of '", *op.attrs->axis, "' ",
                     verb, " ", TensorType{type.dtype, box.shape}),
                 "correct the type or the box");
    };
    require_shape(op.operands[0], shape.owned[own], "owns");
    require_shape(op.results[0], shape.needed[own], "needs");
    i64 found = 0;
    for (std::size_t r = 0; r < shape.owned.size(); ++r) {
        if (r != own && common_part(shape.owned[r], shape.owned[own]))
            fail(str("ranks ", std::min(r, own), " and ", std::max(r, own), " of '", *op.attrs->axis,
                     "' own ", text_of(shape.owned[std::min(r, own)]), " and ",
                     text_of(shape.owned[std::max(r, own)]), ", which overlap"),
                 "let one rank own each element");
        if (const auto both = common_part(shape.owned[r], shape.needed[own]))
            found += element_count(both->shape);
    }
    if (const i64 needed = element_count(shape.needed[own].shape); found != needed)
        fail(str("rank ", own, " of '", *op.attrs->axis, "' needs ", text_of(shape.needed[own]),
                 ", of which only ", found, " of ", needed, " elements have an owner"),
             "let one rank own each element");
}

} // namespace trivium
