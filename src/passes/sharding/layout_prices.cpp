#include "passes/sharding/layout_prices.hpp"

#include "base/check.hpp"

namespace trivium {

int LayoutPrices::number(const Layout& layout)
{
    text_.clear();
    append_text(text_, layout);
    const auto [at, added] = numbers_.try_emplace(text_, static_cast<int>(layouts_.size()));
    if (added)
        layouts_.push_back(layout);
    return at->second;
}

std::uint64_t LayoutPrices::key(ValueId v, int from, int to)
{
    int& shape = shape_of_[v.index()];
    if (const TensorType& type = g_[v].type; shape < 0)
        shape = shapes_.try_emplace({type.dtype, type.shape}, static_cast<int>(shapes_.size())).first->second;
    constexpr int bits = 21;
    TRV_CHECK(std::max({shape, from, to}) < 1 << bits, "too many layouts");
    return (static_cast<std::uint64_t>(shape) << bits | static_cast<std::uint64_t>(from)) << bits |
           static_cast<std::uint64_t>(to);
}

double LayoutPrices::bytes(int from, int to, ValueId v, bool sums_wait)
{
    if (from == to)
        return 0;
    const auto [at, added] = bytes_.try_emplace(key(v, from, to) << 1 | (sums_wait ? 1 : 0), 0.0);
    if (added)
        at->second = pricing_.bytes_moved(layout(from), layout(to).axes, g_[v], sums_wait);
    return at->second;
}

double LayoutPrices::size(int number, ValueId v)
{
    const auto [at, added] = sizes_.try_emplace(key(v, number, 0), 0.0);
    if (added)
        at->second = static_cast<double>(largest_shard(g_[v].type, layout(number).axes, g_.mesh));
    return at->second;
}

} // namespace trivium
