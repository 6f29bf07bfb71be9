#include "programs/tensors.hpp"

#include "base/rng.hpp"
#include "ir/ops/op_table.hpp"
#include "kernels/exec.hpp"
#include "kernels/rope_table.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <string>

namespace trivium {

namespace {

/// A number in a tensor's type. Floats of less precision than double are rounded once, through float.
template <class T>
T stored(double value)
{
    return T(static_cast<kernels::Acc<T>>(value));
}

/// By value: below which extent its integers must be because an op indexes with them.
std::vector<i64> index_limits(const Graph& graph)
{
    std::vector<i64> limits(graph.values.size(), std::numeric_limits<i64>::max());
    for (std::size_t i = graph.ops.size(); i-- > 0;) {
        const Op& op = graph.ops[i];
        const bool has_integers = std::any_of(op.operands.begin(), op.operands.end(),
                                              [&](ValueId v) { return graph[v].type.dtype == DType::i32; });
        if (!has_integers)
            continue;
        i64 limit = std::numeric_limits<i64>::max();
        for (const Factor& factor : rule_of(graph, op).factors)
            if (factor.kind == FactorKind::indexed)
                limit = std::min(limit, factor.size);
        const OpInfo& row = info(op);
        if (row.placement || row.reshapes || row.expands || row.manual) // the same integers elsewhere
            limit = std::min(limit, limits[op.results[0].index()]);
        for (const ValueId v : op.operands)
            limits[v.index()] = std::min(limits[v.index()], limit);
    }
    return limits;
}

template <class T>
void fill(const Value&, const Box& box, const FillInit& init, u64, T* to)
{
    std::fill_n(to, element_count(box.shape), stored<T>(init.value));
}

template <class T>
void fill(const Value& value, const Box& box, const NormalInit& init, u64 seed, T* to)
{
    const RandomStream stream(seed, value.name);
    for_each_run(value.type.shape, box, [&](i64 whole, i64 local, i64 count) {
        for (i64 i = 0; i < count; ++i)
            to[local + i] = stored<T>(init.std * stream.normal_at(static_cast<u64>(whole + i)));
    });
}

template <class T>
void fill(const Value& value, const Box& box, const UniformInit& init, u64 seed, T* to)
{
    const RandomStream stream(seed, value.name);
    for_each_run(value.type.shape, box, [&](i64 whole, i64 local, i64 count) {
        for (i64 i = 0; i < count; ++i)
            to[local + i] = stored<T>(init.bound * (2 * stream.uniform_at(static_cast<u64>(whole + i)) - 1));
    });
}

template <class T>
void fill(const Value& value, const Box& box, const RopeTableInit& init, u64, T* to)
{
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) { // verify() refuses other types
        const Shape& shape = value.type.shape;
        std::vector<T> whole(static_cast<std::size_t>(value.type.elements()));
        kernels::fill_rope_table(init.angles, shape[1], shape[0], whole.data());
        copy_box(value.type, reinterpret_cast<const std::byte*>(whole.data()), box,
                 reinterpret_cast<std::byte*>(to));
    }
}

void draw_integers(const Value& value, const Box& box, u64 seed, i64 limit, std::int32_t* to)
{
    const RandomStream stream(seed, value.name);
    const auto choices = static_cast<u64>(std::clamp<i64>(limit, 1, 10));
    for_each_run(value.type.shape, box, [&](i64 whole, i64 local, i64 count) {
        for (i64 i = 0; i < count; ++i)
            to[local + i] = static_cast<std::int32_t>(stream.bits_at(static_cast<u64>(whole + i)) % choices);
    });
}

/// What combines with any x to x.
template <class T>
T identity_of(Combine combine)
{
    using Real = std::conditional_t<std::is_same_v<T, bf16>, float, T>;
    constexpr Real most = std::numeric_limits<Real>::has_infinity ? std::numeric_limits<Real>::infinity()
                                                                  : std::numeric_limits<Real>::max();
    constexpr Real least =
        std::numeric_limits<Real>::has_infinity ? -most : std::numeric_limits<Real>::lowest();
    switch (combine) {
    case Combine::sum: return T(Real(0));
    case Combine::product: return T(Real(1));
    case Combine::min: return T(most);
    case Combine::max:
    case Combine::lse: break;
    }
    return T(least);
}

/// Calls move(whole offset, box offset, bytes) for the runs of a box.
template <class Move>
void each_run(const TensorType& whole, const Box& box, Move&& move)
{
    const auto size = size_of(whole.dtype);
    for_each_run(whole.shape, box, [&](i64 global, i64 local, i64 count) {
        move(global * size, local * size, static_cast<std::size_t>(count * size));
    });
}

} // namespace

void copy_box(const TensorType& whole, const std::byte* from, const Box& box, std::byte* to)
{
    each_run(whole, box, [&](Bytes global, Bytes local, std::size_t bytes) {
        std::memcpy(to + local, from + global, bytes);
    });
}

void place_box(const TensorType& whole, const std::byte* from, const Box& box, std::byte* to)
{
    each_run(whole, box, [&](Bytes global, Bytes local, std::size_t bytes) {
        std::memcpy(to + global, from + local, bytes);
    });
}

TensorSource drawn_source(const Graph& global, u64 seed)
{
    std::map<std::string, i64> limits;
    const std::vector<i64> by_value = index_limits(global);
    for (std::size_t i = 0; i < global.values.size(); ++i)
        limits[global.values[i].name] = by_value[i];
    return [limits, seed](const Value& value, const Box& box, std::byte* to) {
        const i64 elements = element_count(box.shape);
        if (value.role == Role::carry) {
            std::fill_n(to, elements * size_of(value.type.dtype), std::byte{0});
            return;
        }
        with_tensor_type(value.type.dtype, [&](auto t) {
            using T = decltype(t);
            auto* data = reinterpret_cast<T*>(to);
            std::visit(
                [&](const auto& init) {
                    if constexpr (!std::is_same_v<std::decay_t<decltype(init)>, std::monostate>)
                        fill(value, box, init, seed, data);
                    else if constexpr (std::is_same_v<T, std::int32_t>)
                        draw_integers(value, box, seed, limits.at(value.name), data);
                    else
                        fill(value, box, NormalInit{1}, seed, data);
                },
                *value.init);
        });
    };
}

bool contributes_nothing(const Value& value, const Mesh& mesh, const Coordinates& at, std::byte* to,
                         Bytes bytes)
{
    for (const Partial& partial : value.sharding->partial) {
        if (mesh.group(at, {partial.axis}).front() == mesh.rank(at))
            continue;
        with_tensor_type(value.type.dtype, [&](auto t) {
            using T = decltype(t);
            std::fill_n(reinterpret_cast<T*>(to), bytes / static_cast<Bytes>(sizeof(T)),
                        identity_of<T>(partial.combine));
        });
        return true;
    }
    return false;
}

} // namespace trivium
