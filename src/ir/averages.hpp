#pragma once
// The states that are moving averages of parameters (Builder::average_weights).
#include "ir/graph.hpp"

namespace trivium {

/// Whether a value is one; Value::state_of names its parameter.
inline bool is_average(const Value& value)
{
    return value.role == Role::state && !value.state_of.parameter.empty() &&
           value.state_of.update == OpKind::weight_average;
}

} // namespace trivium
