#include "passes/sharding/box_moves.hpp"

#include "base/words.hpp"

#include <algorithm>
#include <tuple>

namespace trivium {

bool permutes(std::vector<Box> have, std::vector<Box> need)
{
    const auto less = [](const Box& a, const Box& b) {
        return std::tie(a.offset, a.shape) < std::tie(b.offset, b.shape);
    };
    std::sort(have.begin(), have.end(), less);
    std::sort(need.begin(), need.end(), less);
    return have == need;
}

std::vector<i64> numbers_of(const Mesh& mesh, const std::vector<std::string>& axes, const BoxOf& boxes)
{
    std::vector<i64> numbers;
    for (const i64 rank : mesh.group(Coordinates(mesh.axes.size(), 0), axes)) {
        const Box box = boxes(mesh.coordinates(rank));
        numbers.insert(numbers.end(), box.offset.begin(), box.offset.end());
        numbers.insert(numbers.end(), box.shape.begin(), box.shape.end());
    }
    return numbers;
}

ValueId sliced(Builder& builder, ValueId x, const Box& have, Box need)
{
    for (std::size_t d = 0; d < need.offset.size(); ++d)
        need.offset[d] = need.shape[d] > 0 ? need.offset[d] - have.offset[d] : 0;
    return builder.part_at(x, need);
}

ValueId exchanged(Builder& builder, const Coordinates& at, ValueId x, const DimAxes& axes, const BoxOf& owned,
                  const BoxOf& needed)
{
    const Mesh mesh = builder.graph().mesh;
    const Coordinates first(mesh.axes.size(), 0);
    std::vector<std::string> along;
    for (std::size_t d = 0; d < axes.size(); ++d) {
        const std::vector<i64> ranks = mesh.group(first, axes[d]);
        if (std::all_of(ranks.begin(), ranks.end(), [&](i64 rank) {
                const Box have = owned(mesh.coordinates(rank)), need = needed(mesh.coordinates(rank));
                return have.offset[d] == need.offset[d] && have.shape[d] == need.shape[d];
            }))
            continue;
        along.insert(along.end(), axes[d].begin(), axes[d].end());
    }
    const std::string joint = joined_words(along, "+");
    require_few(builder.graph(), x, mesh.ranks_along(joint));
    std::vector<Box> have, need;
    for (const i64 member : mesh.group(at, {joint})) {
        have.push_back(owned(mesh.coordinates(member)));
        need.push_back(needed(mesh.coordinates(member)));
    }
    const auto kind = permutes(have, need) ? Builder::Exchange::permute : Builder::Exchange::halo;
    return builder.exchange(kind, x, joint, have, need, needed(at).shape);
}

} // namespace trivium
