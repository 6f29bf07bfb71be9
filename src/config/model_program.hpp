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

/// An output of which a report shows samples.
struct ShownOutput {
    std::string name;
    std::string scale; ///< the last input of its shape, in whose range it is drawn; empty: none

    bool operator==(const ShownOutput&) const = default;
};

/// model/program.hpp makes it of a file's text.
struct ModelProgram {
    std::string text;
    std::string computes; ///< what it computes, as text: without mesh, shardings, blocks, shown outputs
    i64 blocks = 0;
    i64 parameters = 0; ///< elements
    /// Axes of its mesh, in order, and those of them that shard the samples of an input.
    std::vector<std::string> axes, batch_axes;
    std::vector<std::string> metrics; ///< outputs that an evaluation averages, besides the loss
    std::vector<ShownOutput> shown;

    bool operator==(const ModelProgram&) const = default;
};

} // namespace trivium
