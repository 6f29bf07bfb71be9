#pragma once
// A hand-made graph, scheduled, with planned memory, executable in f64.
#include "harness.hpp"

#include "ir/builder.hpp"

#include <functional>

namespace trivium::runs {

/// Contents for an input, by its value and microbatch.
using Ids = std::function<std::vector<std::int32_t>(const Value&, i64 microbatch)>;

class SmallGraph {
public:
    /// Schedules `graph`, which must verify, for that many microbatches.
    SmallGraph(Graph graph, i64 microbatches, Ids ids);

    void run(const std::vector<double>& hyper = {});
    void update() { executor->run_after_decision(); }
    reference::Vector read(std::string_view name) const { return runs::read(program, *arenas, name); }
    /// All elements of the output called `name`.
    reference::Vector fetched(const std::string& name) const;
    void write(std::string_view name, const reference::Vector& values)
    {
        runs::write(program, *arenas, name, values);
    }
    void require_planned_is_used() const;

    Program program;
    MemoryPlan plan;
    std::unique_ptr<Arenas> arenas;
    std::unique_ptr<Executor> executor;

private:
    Ids ids_;
};

/// Adds `x`, summed over microbatches, to the graph's outputs as `name`.
void add_output(Builder& b, ValueId x, const std::string& name);
/// Adds the sum of all elements of `x`, summed over microbatches, to the graph's outputs as `loss_sum`.
void make_loss_sum(Builder& b, ValueId x);

} // namespace trivium::runs
