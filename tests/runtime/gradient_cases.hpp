#pragma once
// For op_gradient_test: ops on parameters whose gradients are compared with finite differences.
#include "small_graph.hpp"

namespace trivium::runs {

/// Builds an op on parameters and returns the results that enter the loss.
using Build = std::function<std::vector<ValueId>(Builder&)>;

struct GradientCase {
    std::string name;
    Build build;
};

inline ValueId parameter(Builder& b, const std::string& name, Shape shape)
{
    return b.value(name, {DType::f64, std::move(shape)}, Role::parameter, FillInit{0.0});
}

/// An input. The name ends with the number that its contents are below: "ids<7".
inline ValueId ids(Builder& b, const std::string& name, Shape shape)
{
    return b.value(name, {DType::i32, std::move(shape)}, Role::input);
}

/// Those of general_ops.inc.
std::vector<GradientCase> general_cases();
/// Those of expert_ops.inc.
std::vector<GradientCase> expert_cases();

} // namespace trivium::runs
