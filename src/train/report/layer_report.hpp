#pragma once
// metrics.layers.jsonl: norms of gradients, weights and updates, for the parts of each layer.
#include "io/files/lines.hpp"
#include "train/engine.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trivium {

class LayerReport {
public:
    /// Makes the file, or continues it behind `step`. `parameters`: norm_parameters(). Rank 0 makes one.
    /// IoError.
    LayerReport(const std::string& dir, const std::vector<std::string>& parameters, i64 step);

    /// Removes the lines after `step`. IoError.
    void go_back(i64 step);
    /// Appends a line for each part. Warns, once, if the disk fails: a run does not end for that.
    void write(i64 step, const ParameterNorms& norms);

private:
    /// Parameters with one name up to what follows their layer: "layers.3.attn.…".
    struct Part {
        std::string layer; ///< empty: of none
        std::string name;
        std::vector<std::size_t> members;
    };

    std::string path_;
    std::vector<Part> parts_;
    std::optional<LineWriter> lines_;
    bool failed_ = false;
};

} // namespace trivium
