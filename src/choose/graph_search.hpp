#pragma once
// Searches shardings for a program of tensor ops: which factor of each product, convolution or other
// contraction is sharded over which mesh axis. FlexFlow's dimensions of an op (Jia et al. 2019,
// arXiv:1807.05358, section 4: samples, operators' attributes and parameters), as annotations that
// propagation completes.
#include "choose/search.hpp"
#include "plan/graph_file.hpp"

namespace trivium {

/// A graph with further annotations.
struct AnnotatedGraph {
    Graph graph;
    std::vector<ValueId> annotated; ///< the values that have them
    Seconds seconds = 0;            ///< infinite: needs too much memory
};

struct GraphSearchConfig {
    /// Simulates a graph, and sets `seconds`; may throw Error if its annotations are not legal.
    std::function<void(AnnotatedGraph&)> simulate;
    std::size_t tries = 2000; ///< graphs that are simulated, at most
    std::string machine{};    ///< for messages
    std::function<void(const std::string&)> progress{};
};
/// Simulates the program of rank 0, which has the largest shards.
GraphSearchConfig program_search(const Machine& machine, i64 threads = 1);

struct GraphSearchResult {
    AnnotatedGraph found;
    Seconds given = 0; ///< of the given graph
    /// Strategies that treat all ops alike, the fastest first, by name: "x: samples, y: outputs", or "as
    /// given".
    std::vector<std::pair<std::string, AnnotatedGraph>> uniform;
    std::size_t simulated = 0;
};

/// \pre `graph` is that of all ranks, without pipeline stages. What it annotates stays as it is; what one
/// line of its file makes is treated alike. From the uniform strategies (for each axis: all ops shard their
/// samples, their outputs, or what they contract) and from propagation alone, the search changes the strategy
/// of one op, of all ops of one form in repeated blocks, or of two ops in a row along one axis, as long as
/// the time gets shorter. Deterministic. \throws UserError if the given graph has no program, or nothing that
/// was tried fits
GraphSearchResult search_shardings(const Graph& graph, const GraphSearchConfig& config);

/// `text`, of which `made` is the graph, with its annotations behind the types, so that comments, order and
/// repetitions stay; as the graph alone if an annotation does not fit behind its statement. `parse` makes a
/// graph of a text.
std::string annotated_text(const std::string& text, const AnnotatedGraph& made,
                           const std::function<Graph(const std::string&)>& parse);

/// The search for a training of a program (model.family = "graph") on the config's grid: simulates a step,
/// with gradients and updates.
class TrainingSearch {
public:
    /// \pre `config` is resolved and validated. `thread_limit` as in thread_count()
    TrainingSearch(const RunConfig& config, const Machine& machine, int thread_limit);
    /// The program of a microbatch, over all ranks, with the degrees of the config's grid.
    const Graph& graph() const { return graph_; }
    /// \pre this outlives it
    GraphSearchConfig search() const;
    /// annotated_text() of the program.
    std::string text(const AnnotatedGraph& made) const;

private:
    Graph parsed(const std::string& text) const;

    RunConfig config_;
    SearchConfig on_;
    Graph graph_;
};

} // namespace trivium
