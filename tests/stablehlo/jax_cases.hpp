#pragma once
// Functions that JAX exported, with arguments and results: tests/stablehlo/jax.
#include "ir/type.hpp"

#include <map>
#include <string>
#include <vector>

namespace trivium::jax {

struct CaseTensor {
    DType dtype = DType::f32;
    std::vector<double> elements;
};

struct Case {
    std::string name, text;                      ///< text: StableHLO
    std::map<int, CaseTensor> in, out, gradient; ///< by number
};

/// Of all .cases files in `folder`, by name of the file.
std::vector<Case> read_cases(const std::string& folder);

} // namespace trivium::jax
