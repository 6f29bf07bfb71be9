#include "train/batches.hpp"

#include "ir/names.hpp"

#include <algorithm>
#include <numeric>

namespace trivium {

void fill_row(const Value& value, i64 row, const TokenStore& store, i64 window, void* destination)
{
    const i64 seq = value.type.shape[1];
    std::int32_t* to = static_cast<std::int32_t*>(destination) + row * seq;
    if (value.name == value_name::positions)
        std::iota(to, to + seq, 0);
    else if (window < 0)
        std::fill(to, to + seq, value.name == value_name::targets ? -1 : 0);
    else
        store.read(window * seq + (value.name == value_name::targets ? 1 : 0), seq, to);
}

std::map<std::string, Box> input_boxes(const Graph& graph)
{
    std::map<std::string, Box> boxes;
    for (const ValueId id : graph.with_role(Role::input))
        boxes[graph[id].name] = box_of(graph, id);
    return boxes;
}

} // namespace trivium
