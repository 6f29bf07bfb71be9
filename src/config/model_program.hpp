#pragma once
// A model that is a program of tensor ops from a file: what rooms without graphs need to know of it.
#include "base/units.hpp"

#include <string>
#include <utility>
#include <vector>

namespace trivium {

/// Numbers by name, in the order in which a config states them.
struct NamedNumbers {
    std::vector<std::pair<std::string, i64>> list;
    bool operator==(const NamedNumbers&) const = default;
};

/// model/program.hpp makes it of a file's text.
struct ModelProgram {
    std::string text;
    /// What it computes, as text: without mesh, shardings, blocks and comments, with the number of samples
    /// that its size `b` has in the file.
    std::string computes;
    i64 samples = 0; ///< that number; 0: it declares no `b`
    i64 blocks = 0;
    i64 parameters = 0; ///< elements
    /// Axes of its mesh, in order, and those of them that shard the samples of an input.
    std::vector<std::string> axes, batch_axes;
    /// Whether the output `count` may differ between batches of data: it depends on more than `valid`.
    bool counts_vary = false;
    std::vector<std::string> metrics; ///< outputs that an evaluation averages, besides the loss

    bool operator==(const ModelProgram&) const = default;
};

} // namespace trivium
