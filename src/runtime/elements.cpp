#include "runtime/elements.hpp"

#include "base/check.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/general/indexing.hpp"
#include "kernels/general/pointwise.hpp"
#include "runtime/op_args.hpp"

namespace trivium {

namespace k = kernels;

namespace {

using In = const void* const*;

std::optional<k::Unary> unary_of(OpKind kind)
{
    switch (kind) {
#define TRV_CASE(op)                                                                                         \
    case OpKind::op: return k::Unary::op;
        TRV_CASE(negate)
        TRV_CASE(abs)
        TRV_CASE(sign)
        TRV_CASE(exp)
        TRV_CASE(expm1)
        TRV_CASE(log)
        TRV_CASE(log1p)
        TRV_CASE(sqrt)
        TRV_CASE(rsqrt)
        TRV_CASE(tanh)
        TRV_CASE(sigmoid)
        TRV_CASE(sin)
        TRV_CASE(cos)
        TRV_CASE(erf)
        TRV_CASE(floor)
        TRV_CASE(ceil)
        TRV_CASE(logical_not)
#undef TRV_CASE
    default: return {};
    }
}

std::optional<k::Binary> binary_of(OpKind kind)
{
    switch (kind) {
#define TRV_CASE(op)                                                                                         \
    case OpKind::op: return k::Binary::op;
        TRV_CASE(subtract)
        TRV_CASE(multiply)
        TRV_CASE(divide)
        TRV_CASE(maximum)
        TRV_CASE(minimum)
        TRV_CASE(power)
        TRV_CASE(remainder)
        TRV_CASE(logical_and)
        TRV_CASE(logical_or)
        TRV_CASE(logical_xor)
#undef TRV_CASE
    default: return {};
    }
}

k::Direction direction_of(const Args& a)
{
    constexpr std::pair<const char*, k::Direction> names[] = {
        {"eq", k::Direction::eq}, {"ne", k::Direction::ne}, {"lt", k::Direction::lt},
        {"le", k::Direction::le}, {"gt", k::Direction::gt}, {"ge", k::Direction::ge}};
    const std::string& name = *a.attrs().direction;
    for (const auto& [text, direction] : names)
        if (name == text)
            return direction;
    throw InternalError(__FILE__, __LINE__, str("no comparison '", name, "'"));
}

template <class T>
const T* in_of(In in, int i)
{
    return static_cast<const T*>(in[i]);
}
template <class T>
T* out_of(void* out)
{
    return static_cast<T*>(out);
}

/// The call of kernel(exec, n, last..., operands..., out).
template <class T, class... Operands, class Kernel, class... Last>
ElementCall elements_of(Kernel kernel, Last... last)
{
    return [=](const k::Exec& e, i64, i64 n, [[maybe_unused]] In in, void* out) {
        [&]<std::size_t... i>(std::index_sequence<i...>)
        {
            kernel(e, n, last..., static_cast<const Operands*>(in[i])..., static_cast<T*>(out));
        }
        (std::index_sequence_for<Operands...>());
    };
}

/// Ops on tensors of T.
template <class T>
ElementCall bind_tensors(const Args& a)
{
    const OpKind kind = a.b.op->kind;
    if (const auto op = unary_of(kind))
        return [op](const k::Exec& e, i64, i64 n, In in, void* out) {
            k::unary(e, *op, n, in_of<T>(in, 0), out_of<T>(out));
        };
    const auto binary = [](k::Binary op) -> ElementCall {
        return [op](const k::Exec& e, i64, i64 n, In in, void* out) {
            k::binary(e, op, n, in_of<T>(in, 0), in_of<T>(in, 1), out_of<T>(out));
        };
    };
    if (const auto op = binary_of(kind))
        return binary(*op);
    switch (kind) {
    case OpKind::compare:
        return [direction = direction_of(a)](const k::Exec& e, i64, i64 n, In in, void* out) {
            k::compare(e, direction, n, in_of<T>(in, 0), in_of<T>(in, 1), out_of<std::int32_t>(out));
        };
    case OpKind::add:
        if constexpr (std::is_integral_v<T>)
            return binary(k::Binary::add);
        else
            return elements_of<T, T, T>(k::add<T>);
    case OpKind::fill:
        if constexpr (!std::is_integral_v<T>)
            return elements_of<T>(k::fill<T>, *a.attrs().value);
        [[fallthrough]];
    case OpKind::constant: return elements_of<T>(k::splat<T>, *a.attrs().value);
    case OpKind::select: return elements_of<T, std::int32_t, T, T>(k::select<T>);
    default: return {};
    }
}

/// Ops on floating numbers of T.
template <class T>
ElementCall bind_floating(const Args& a)
{
    switch (a.b.op->kind) {
    case OpKind::affine: return elements_of<T, T>(k::affine<T>, *a.attrs().alpha, a.attrs().beta.value_or(0));
    case OpKind::gelu:
        return [f = activation_of(a, Activation::gelu_tanh)](const k::Exec& e, i64, i64 n, In in, void* out) {
            k::gelu(e, n, in_of<T>(in, 0), out_of<T>(out), f);
        };
    case OpKind::gelu_grad:
        return [f = activation_of(a, Activation::gelu_tanh)](const k::Exec& e, i64, i64 n, In in, void* out) {
            k::gelu_grad(e, n, in_of<T>(in, 0), in_of<T>(in, 1), out_of<T>(out), f);
        };
    default: return {};
    }
}

ElementCall bind_cast(DType from, DType to)
{
    return with_tensor_type(from, [&](auto x) {
        return with_tensor_type(to, [&](auto y) {
            using From = decltype(x);
            using To = decltype(y);
            if constexpr (std::is_integral_v<From> || std::is_integral_v<To>)
                return elements_of<To, From>(k::convert<From, To>);
            else
                return elements_of<To, From>(k::cast<From, To>);
        });
    });
}

} // namespace

ElementCall bind_elements(const Binding& binding)
{
    const Args a{binding};
    if (binding.op->results.size() != 1)
        return {};
    const OpKind kind = binding.op->kind;
    if (kind == OpKind::cast)
        return bind_cast(a.in_type(0).dtype, a.out_type(0).dtype);
    // select's first operand is i32, a constant has none.
    const bool of_result = kind == OpKind::constant || kind == OpKind::select || kind == OpKind::fill;
    if (!of_result && binding.op->operands.empty())
        return {};
    const DType type = of_result ? a.out_type(0).dtype : a.in_type(0).dtype;
    if (type > DType::bf16 && type != DType::i32)
        return {};
    ElementCall call = with_tensor_type(type, [&](auto t) { return bind_tensors<decltype(t)>(a); });
    if (!call && type != DType::i32)
        call = with_type(type, [&](auto t) { return bind_floating<decltype(t)>(a); });
    return call;
}

ElementCall bind_spread(const Binding& binding)
{
    const Args a{binding};
    if (binding.op->kind != OpKind::broadcast || a.out_type(0).elements() == 0)
        return {};
    const k::IndexMap map = k::merged(k::broadcast_map(a.in_shape(0), a.list(Attr::dims), a.out_shape(0)));
    if (!k::has_long_runs(map))
        return {};
    return with_tensor_type(a.in_type(0).dtype, [&](auto t) -> ElementCall {
        using T = decltype(t);
        return [map](const k::Exec&, i64 begin, i64 n, In in, void* out) {
            k::spread(map, begin, n, in_of<T>(in, 0), out_of<T>(out));
        };
    });
}

Call over_all(const ElementCall& elements, const Binding& binding)
{
    return [elements, n = Args{binding}.out_type(0).elements(),
            in = std::vector<const void*>(binding.operands.begin(), binding.operands.end()),
            out = binding.results[0]](const k::Exec& e) { elements(e, 0, n, in.data(), out); };
}

} // namespace trivium
