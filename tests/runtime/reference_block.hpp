#pragma once
// An independent decoder with every option of [model]: double, one sequence after another, every sum a loop
// over scalars. Its gradients come from a tape of scalars. It shares only the struct of options with Trivium.
#include "config/model_config.hpp"
#include "reference_model.hpp"

namespace reference {

/// Coefficients of the losses of routers.
struct RouterLosses {
    double balance = 0, z = 0;
};

/// `tokens` and `targets` are [rows, length]; a target below 0 is ignored. The "gradient" of a balance bias
/// is how many slots its expert has. \pre `model` is resolved
Result run(const trivium::ModelConfig& model, const Tensors& parameters, const Ids& tokens,
           const Ids& targets, std::size_t length, const RouterLosses& losses = {});

} // namespace reference
