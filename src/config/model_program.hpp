#pragma once
// A model that is a program of tensor ops from a file: what rooms without graphs need to know of it.
#include "base/units.hpp"

#include <memory>
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

/// A text of which copies of a config share one copy.
class SharedText {
public:
    SharedText() = default;
    SharedText(std::string text) : text_(std::make_shared<const std::string>(std::move(text))) {}
    const std::string& get() const { return *text_; }
    bool operator==(const SharedText& other) const { return get() == other.get(); }

private:
    std::shared_ptr<const std::string> text_ = std::make_shared<const std::string>();
};

/// model/program.hpp makes it of a file's text.
struct ModelProgram {
    SharedText text;
    i64 samples = 0; ///< the size `b` in the file; 0: it declares none
    i64 blocks = 0;
    i64 parameters = 0;                               ///< elements
    std::vector<std::pair<std::string, i64>> trained; ///< parameters that the optimizer changes: elements
    /// Axes of its mesh, in order, and those of them that shard the samples of an input.
    std::vector<std::string> axes, batch_axes;
    /// Whether the output `count` may differ between batches of data: it depends on more than `valid`.
    bool counts_vary = false;
    std::vector<std::string> metrics; ///< outputs that an evaluation averages, besides the loss
    std::vector<ShownOutput> shown;

    bool operator==(const ModelProgram&) const = default;
};

} // namespace trivium
