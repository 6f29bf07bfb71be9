#pragma once
// Small programs of one op each, for every general op: inputs without shardings, which a test adds.
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

struct OpCase {
    std::string name;
    std::vector<std::string> inputs; ///< "%a : f64[6,8]"
    std::string body;                ///< lines; the results of the last one are the outputs
    std::vector<std::string> outputs;
    double tolerance = 0; ///< of differences from the op on one rank; 0: equal
};

/// With even and uneven extents, in every element type. Numbers are such that f32, bf16 and i32 are exact in
/// whatever order they are added; f64 are normal numbers.
std::vector<OpCase> op_cases();
/// Those of mixtures of experts, in f64. They have so many operands that shardings are only drawn.
std::vector<OpCase> expert_op_cases();

/// Appends the cases of a text, each
///
///     # NAME [: TYPES]
///     %a : f64[6,8]
///     %y = op(%a) {…} : f64[6,8]
///
/// in f64, and with each of TYPES in its place.
void add_cases(std::vector<OpCase>& all, std::string_view text);
/// The name of the element type in which a case is, at its end.
std::string typed(const std::string& name, std::string_view type);

// The texts.
extern const char* const shape_cases;
extern const char* const window_cases;
extern const char* const convolution_cases;
extern const char* const index_cases;
extern const char* const expert_cases;

} // namespace trivium
