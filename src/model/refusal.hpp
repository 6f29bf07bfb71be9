#pragma once
// Refuses a program that cannot be a model.
#include "base/check.hpp"
#include "ir/graph.hpp"

namespace trivium {

/// Throws UserError about that line of the file; 0: about the file.
[[noreturn]] inline void refuse(const Graph& graph, int line, const std::string& problem,
                                const std::string& reason, const std::string& remedy)
{
    throw UserError({source_place(graph, line) + "a model", problem, reason, remedy});
}

} // namespace trivium
