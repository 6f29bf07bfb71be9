#include "runtime/initialise.hpp"

#include "base/check.hpp"
#include "base/rng.hpp"
#include "kernels/exec.hpp"
#include "kernels/rope_table.hpp"

namespace trivium {

namespace {

/// Elements [begin, begin + count) of the whole tensor. They come in pairs: (0, 1), (2, 3), …
template <class T>
void fill_normal(T* data, i64 begin, i64 count, const RandomStream& stream, double std, int threads)
{
    const i64 first = begin / 2, end = begin + count;
#pragma omp parallel for schedule(static) num_threads(threads) if (count > 4096)
    for (i64 pair = first; pair < (end + 1) / 2; ++pair) {
        const auto normals = stream.normal_pair(static_cast<std::uint64_t>(pair));
        for (i64 i = std::max(begin, 2 * pair); i < std::min(end, 2 * pair + 2); ++i)
            data[i - begin] = T(static_cast<kernels::Acc<T>>(std * normals[static_cast<std::size_t>(i % 2)]));
    }
}

constexpr i64 at_once = i64{1} << 22; ///< elements that a window holds at most: on a device it is a copy

/// The content of a value, window by window: `fill(data, begin, count)` for its elements [begin, begin +
/// count).
template <class T, class Fill>
void through_windows(const Arena& arena, Bytes offset, i64 count, Fill&& fill)
{
    constexpr auto size = static_cast<Bytes>(sizeof(T));
    for (i64 begin = 0; begin < count; begin += at_once) {
        const i64 n = std::min(at_once, count - begin);
        HostWindow window(arena, offset + begin * size, n * size);
        fill(reinterpret_cast<T*>(window.data()), begin, n);
        window.push();
    }
}

template <class T>
void fill_value(const Value& value, const Box& box, const Arena& arena, Bytes offset, std::uint64_t seed,
                int threads)
{
    const Init& init = value.init;
    const i64 count = value.type.elements();
    if (init.kind == "normal") {
        const RandomStream stream(seed, value.name);
        const double std = real_attr(init.attrs, "std");
        for_each_run(whole_shape(value), box, [&](i64 from, i64 to, i64 run) {
            through_windows<T>(
                arena, offset + to * static_cast<Bytes>(sizeof(T)), run,
                [&](T* data, i64 begin, i64 n) { fill_normal(data, from + begin, n, stream, std, threads); });
        });
    } else if (init.kind == "fill") {
        const T filler(static_cast<kernels::Acc<T>>(real_attr(init.attrs, "value")));
        if (real_attr(init.attrs, "value") == 0)
            return arena.clear(offset, count * static_cast<Bytes>(sizeof(T)));
        through_windows<T>(arena, offset, count,
                           [&](T* data, i64, i64 n) { std::fill(data, data + n, filler); });
    } else if (init.kind == "rope_table") {
        if constexpr (!std::is_same_v<T, bf16>) {
            kernels::RopeFrequencies f;
            f.head_dim = 2 * value.type.shape[1];
            f.theta = real_attr(init.attrs, "theta");
            f.factor = real_attr(init.attrs, "factor");
            f.low_freq_factor = real_attr(init.attrs, "low_freq_factor");
            f.high_freq_factor = real_attr(init.attrs, "high_freq_factor");
            f.original_seq = int_attr(init.attrs, "original_seq");
            HostWindow window(arena, offset, count * static_cast<Bytes>(sizeof(T)));
            kernels::fill_rope_table(f, value.type.shape[0], reinterpret_cast<T*>(window.data()));
            window.push();
        }
    } else {
        throw InternalError(__FILE__, __LINE__,
                            str("%", value.name, " has an unknown initialiser '", init.kind, "'"));
    }
}

} // namespace

const Buffer& kept_buffer(const Schedule& schedule, std::string_view name)
{
    for (const Buffer& buffer : schedule.buffers)
        if (buffer.lifetime == Lifetime::run && buffer.name == name)
            return buffer;
    throw InternalError(__FILE__, __LINE__, str("no buffer is called '", name, "'"));
}

void initialise(const Graph& graph, const Schedule& schedule, Arena& arena, std::uint64_t seed, int threads,
                Role role)
{
    for (const ValueId id : graph.with_role(role)) {
        const Value& value = graph[id];
        const Bytes offset = kept_buffer(schedule, value.name).offset;
        with_type(value.type.dtype, [&](auto t) {
            fill_value<decltype(t)>(value, box_of(graph, id), arena, offset, seed, threads);
        });
    }
}

void initialise(const Graph& graph, const Schedule& schedule, Arena& arena, std::uint64_t seed, int threads)
{
    for (const Role role : {Role::parameter, Role::state, Role::constant})
        initialise(graph, schedule, arena, seed, threads, role);
}

} // namespace trivium
