#pragma once
// Inputs of a program as whole tensors.
#include "programs/tensors.hpp"

#include <map>
#include <string>

namespace trivium {

/// Whole tensors, by the names of their values.
using Tensors = std::map<std::string, TensorBytes>;

/// The whole tensors of drawn_source, for every value that no op computes.
inline Tensors draw_tensors(const Graph& global, u64 seed)
{
    const TensorSource source = drawn_source(global, seed);
    Tensors tensors;
    for (const Value& value : global.values)
        if (!value.producer) {
            TensorBytes& bytes = tensors[value.name];
            bytes.resize(static_cast<std::size_t>(value.type.bytes()));
            source(value, {Shape(value.type.shape.size(), 0), value.type.shape}, bytes.data());
        }
    return tensors;
}

} // namespace trivium
