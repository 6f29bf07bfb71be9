// Constants of the text as values of a graph.
#include "base/bf16.hpp"
#include "stablehlo/importer.hpp"

#include <cstring>

namespace trivium {

ValueId HloImporter::literal_value(const HloLiteral& literal, const HloOp& op)
{
    const HloType& type = literal.type;
    const DType made = dtype(type, op);
    const auto fits = [&](i64 number) {
        if (type.element == HloElement::u32)
            number = wrapped(HloElement::i32, number);
        if (number != static_cast<std::int32_t>(number))
            refuse(op, str("a constant ", number, " of ", to_string(type), " does not fit into i32"),
                   "use i32 (without jax_enable_x64)");
        return static_cast<double>(number);
    };
    const auto element = [&](i64 i) {
        return is_real(type.element) ? real_at(literal, i) : fits(int_at(literal, i));
    };
    if (literal.splat)
        return constant(op, made, type.shape, element(0));
    const i64 count = elements_of(type);
    // Equal steps along one dimension, and nothing along the others.
    std::vector<double> all;
    for (i64 i = 0; i < count; ++i)
        all.push_back(element(i));
    i64 inner = 1;
    for (std::size_t d = type.shape.size(); d-- > 0; inner *= type.shape[d]) {
        const i64 extent = type.shape[d];
        if (extent < 2)
            continue;
        const double first = all[0], step = all[static_cast<std::size_t>(inner)] - first;
        bool counts = true;
        for (i64 i = 0; counts && i < count; ++i)
            counts =
                all[static_cast<std::size_t>(i)] == first + step * static_cast<double>(i / inner % extent);
        if (!counts)
            continue;
        ValueId x =
            emit(op, K::iota, {},
                 {.dtype = made, .lists = {{Attr::shape, type.shape}, {Attr::dims, {static_cast<i64>(d)}}}});
        if (step != 1)
            x = emit(op, K::multiply, {x, constant_like(op, x, step)});
        return first == 0 ? x : emit(op, K::add, {x, constant_like(op, x, first)});
    }
    // Runs of equal elements.
    std::vector<std::pair<double, i64>> runs;
    for (const double x : all) {
        if (!runs.empty() && (runs.back().first == x))
            ++runs.back().second;
        else
            runs.emplace_back(x, 1);
        if (runs.size() > 64)
            return contents_value(literal, op);
    }
    std::vector<ValueId> parts;
    for (const auto& [x, length] : runs)
        parts.push_back(constant(op, made, {length}, x));
    return reshaped(
        op, parts.size() == 1 ? parts[0] : emit(op, K::concatenate, parts, {.lists = {{Attr::dims, {0}}}}),
        type.shape);
}

ValueId HloImporter::contents_value(const HloLiteral& literal, const HloOp& op)
{
    HloContents contents{
        str("constant", made_.contents.size()), {dtype(literal.type, op), literal.type.shape}, {}};
    while (!names_.insert(contents.name).second)
        contents.name += "_";
    for (i64 i = 0; i < contents.type.elements(); ++i) {
        const auto append = [&](auto element) {
            std::byte bytes[sizeof element];
            std::memcpy(bytes, &element, sizeof element);
            contents.bytes.insert(contents.bytes.end(), bytes, bytes + sizeof element);
        };
        switch (contents.type.dtype) {
        case DType::f64: append(real_at(literal, i)); break;
        case DType::f32: append(static_cast<float>(real_at(literal, i))); break;
        case DType::bf16: append(bf16(static_cast<float>(real_at(literal, i)))); break;
        default: append(static_cast<std::int32_t>(wrapped(HloElement::i32, int_at(literal, i))));
        }
    }
    const ValueId id = builder_.value(contents.name, contents.type, Role::input);
    made_.contents.push_back(std::move(contents));
    return id;
}

} // namespace trivium
