#pragma once
// Small programs of one op each, for every general op: inputs without shardings, which a test adds.
#include <string>
#include <vector>

namespace trivium {

struct OpCase {
    std::string name;
    std::vector<std::string> inputs; ///< "%a : f64[6,8]"
    std::string body;                ///< lines that define %y (and %z, …)
    std::vector<std::string> outputs;
};

/// With even and uneven extents; f64, and i32 where the op takes integers.
std::vector<OpCase> op_cases();

} // namespace trivium
