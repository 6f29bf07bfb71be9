#include "runtime/initialise.hpp"

#include "base/check.hpp"
#include "base/rng.hpp"
#include "kernels/exec.hpp"
#include "kernels/rope_table.hpp"

namespace trivium {

namespace {

/// Elements [begin, begin + count) of the whole tensor. They come in pairs: (0, 1), (2, 3), …
template <class T>
void fill_normal(T* data, i64 begin, i64 count, const RandomStream& stream, double std,
                 [[maybe_unused]] int threads)
{
    const i64 first = begin / 2, end = begin + count;
#pragma omp parallel for schedule(static) num_threads(threads) if (count > 4096)
    for (i64 pair = first; pair < (end + 1) / 2; ++pair) {
        const auto normals = stream.normal_pair(static_cast<std::uint64_t>(pair));
        for (i64 i = std::max(begin, 2 * pair); i < std::min(end, 2 * pair + 2); ++i)
            data[i - begin] = T(static_cast<kernels::Acc<T>>(std * normals[static_cast<std::size_t>(i % 2)]));
    }
}

constexpr i64 at_once = i64{1} << 22; ///< maximum elements of a window, because on a device it is a copy

/// Writes a value window by window: calls `fill(data, begin, count)` for its elements [begin, begin + count).
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

/// The value to fill, and its memory.
struct Target {
    const Value& value;
    const Box& box; ///< the box of the whole tensor in the arena
    const Arena& arena;
    Bytes offset;
    std::uint64_t seed;
    int threads;
};

template <class T>
void fill(const Target&, const std::monostate&)
{
}

template <class T>
void fill(const Target& to, const NormalInit& init)
{
    const RandomStream stream(to.seed, to.value.name);
    for_each_run(whole_shape(to.value), to.box, [&](i64 whole, i64 local, i64 run) {
        through_windows<T>(to.arena, to.offset + local * static_cast<Bytes>(sizeof(T)), run,
                           [&](T* data, i64 begin, i64 n) {
                               fill_normal(data, whole + begin, n, stream, init.std, to.threads);
                           });
    });
}

template <class T>
void fill(const Target& to, const UniformInit& init)
{
    const RandomStream stream(to.seed, to.value.name);
    for_each_run(whole_shape(to.value), to.box, [&](i64 whole, i64 local, i64 run) {
        through_windows<T>(
            to.arena, to.offset + local * static_cast<Bytes>(sizeof(T)), run, [&](T* data, i64 begin, i64 n) {
                for (i64 i = 0; i < n; ++i)
                    data[i] = T(static_cast<kernels::Acc<T>>(
                        init.bound * (2 * stream.uniform_at(static_cast<u64>(whole + begin + i)) - 1)));
            });
    });
}

template <class T>
void fill(const Target& to, const FillInit& init)
{
    const i64 count = to.value.type.elements();
    if (init.value == 0)
        return to.arena.clear(to.offset, count * static_cast<Bytes>(sizeof(T)));
    const T filler(static_cast<kernels::Acc<T>>(init.value));
    through_windows<T>(to.arena, to.offset, count,
                       [&](T* data, i64, i64 n) { std::fill(data, data + n, filler); });
}

template <class T>
void fill(const Target& to, const RopeTableInit& init)
{
    const TensorType& type = to.value.type;
    if constexpr (std::is_same_v<T, bf16>) {
        throw InternalError(__FILE__, __LINE__, str("%", to.value.name, " is a table of ", type));
    } else {
        HostWindow window(to.arena, to.offset, type.bytes());
        kernels::fill_rope_table(init.angles, type.shape[1], type.shape[0],
                                 reinterpret_cast<T*>(window.data()));
        window.push();
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

HostWindow kept_window(const Schedule& schedule, std::string_view name, const Arenas& arenas)
{
    const Buffer& buffer = kept_buffer(schedule, name);
    return {arenas.of(buffer.space), buffer.offset, buffer.bytes};
}

void initialise(const Graph& graph, const Schedule& schedule, const Arenas& arenas, std::uint64_t seed,
                int threads, std::optional<Role> role)
{
    if (!role) {
        for (const Role each : {Role::parameter, Role::state, Role::constant})
            initialise(graph, schedule, arenas, seed, threads, each);
        return;
    }
    for (const ValueId id : graph.with_role(*role)) {
        const Value& value = graph[id];
        const Buffer& buffer = kept_buffer(schedule, value.name);
        const Box box = box_of(graph, value);
        const Target target{value, box, arenas.of(buffer.space), buffer.offset, seed, threads};
        with_type(value.type.dtype, [&](auto t) {
            std::visit([&](const auto& init) { fill<decltype(t)>(target, init); }, *value.init);
        });
    }
}

} // namespace trivium
