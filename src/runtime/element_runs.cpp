#include "runtime/element_runs.hpp"

#include "kernels/ranges.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// Elements that fit in the nearest caches with those of a few other values; a multiple of the kernels' own
/// divisions of a range, on which bits depend.
constexpr i64 tile = 4096;
constexpr std::size_t most_operands = 3;
constexpr std::size_t most_steps = 8; // between them transfers advance

} // namespace

/// Whether one may not change what the other has in another tile.
bool ElementRun::Place::conflicts(const Place& other) const
{
    return meets(other) && (at != other.at || element != other.element || element == 0);
}

bool ElementRun::add(const BoundSchedule& bound, std::size_t index)
{
    const Step& step = bound.schedule.steps[index];
    if (members_.size() == most_steps || step.kind != StepKind::op || bound.moves[index] ||
        step.results.size() != 1 || step.operands.size() > most_operands)
        return false;
    const Binding& binding = bound.bindings[index];
    const auto dense = [](const std::vector<i64>& rows) {
        return std::ranges::all_of(rows, [](i64 apart) { return apart == 0; });
    };
    const auto is_move = [&](StepId other) { return bound.moves[other.index()] != nullptr; };
    const TensorType& type = bound.graph[binding.op->results[0]].type;
    if (type.elements() <= tile || !dense(binding.operand_rows) || !dense(binding.result_rows))
        return false;
    if (!members_.empty() && (type.elements() != n_ || step.microbatch != microbatch_ ||
                              std::ranges::any_of(step.waits, is_move) || index == bound.schedule.decision))
        return false;
    ElementCall call = bind_elements(binding);
    const bool spreads = !call;
    if (spreads && !(call = bind_spread(binding)))
        return false;
    const auto place = [&](ValueId v, void* at, bool whole) {
        const TensorType& t = bound.graph[v].type;
        return Place{static_cast<std::byte*>(at), t.bytes(), whole ? 0 : size_of(t.dtype)};
    };
    Member next{index,
                std::move(call),
                {},
                place(binding.op->results[0], binding.results[0], false),
                binding.op->results[0]};
    for (std::size_t i = 0; i < binding.operands.size(); ++i)
        next.in.push_back(place(binding.op->operands[i], binding.operands[i], spreads));
    for (const Member& m : members_) {
        const auto meets_write = [&](const Place& read) { return read.conflicts(m.out); };
        const auto meets_read = [&](const Place& read) { return read.conflicts(next.out); };
        if (next.out.conflicts(m.out) || std::ranges::any_of(next.in, meets_write) ||
            std::ranges::any_of(m.in, meets_read))
            return false;
    }
    if (std::ranges::any_of(next.in, [&](const Place& read) { return read.conflicts(next.out); }))
        return false;
    n_ = type.elements();
    microbatch_ = step.microbatch;
    members_.push_back(std::move(next));
    return true;
}

void ElementRun::finish(const BoundSchedule& bound, const std::vector<int>& uses)
{
    for (Member& m : members_) {
        int here = 0;
        for (const Member& reader : members_)
            here += static_cast<int>(std::ranges::count(bound.bindings[reader.index].op->operands, m.result));
        m.out.stays = here == uses[m.result.index()] && bound.graph[m.result].role == Role::computed;
    }
    // Elements that a Step leaves in memory may not be where another one has its tile.
    const auto is_safe = [&](const Member& m) {
        return std::ranges::none_of(
            members_, [&](const Member& other) { return !other.out.stays && other.out.meets(m.out); });
    };
    for (bool changed = true; changed;) {
        changed = false;
        for (Member& m : members_)
            if (m.out.stays && !is_safe(m)) {
                m.out.stays = false;
                changed = true;
            }
    }
    for (Member& reader : members_)
        for (std::size_t i = 0; i < reader.in.size(); ++i) {
            const ValueId v = bound.bindings[reader.index].op->operands[i];
            for (const Member& m : members_)
                if (m.result == v)
                    reader.in[i].stays = m.out.stays;
        }
    part_ = [this](i64 first, i64 end) { run_tiles(first, end); };
}

void ElementRun::run_tiles(i64 first, i64 end) const
{
    const kernels::Exec one{1};
    for (i64 t = first; t < end; ++t) {
        const i64 begin = t * tile, n = std::min(tile, n_ - begin);
        const auto address = [&](const Place& place) {
            return place.at + (place.stays ? first * tile : begin) * place.element;
        };
        for (const Member& m : members_) {
            const void* in[most_operands];
            for (std::size_t i = 0; i < m.in.size(); ++i)
                in[i] = address(m.in[i]);
            m.call(one, begin, n, in, address(m.out));
        }
    }
}

void ElementRun::operator()(const kernels::Exec& exec) const
{
    kernels::for_ranges(exec, ceil_div(n_, tile), part_);
}

std::vector<std::unique_ptr<ElementRun>> find_element_runs(const BoundSchedule& bound)
{
    std::vector<std::unique_ptr<ElementRun>> runs(bound.schedule.steps.size());
    if (kernels::observed_by_tools())
        return runs;
    std::vector<int> uses = uses_of(bound.graph);
    std::unique_ptr<ElementRun> run;
    std::size_t first = 0;
    const auto end_run = [&] {
        if (run && run->steps() > 1) {
            run->finish(bound, uses);
            runs[first] = std::move(run);
        }
        run.reset();
    };
    for (std::size_t i = 0; i < runs.size(); ++i) {
        if (run && run->add(bound, i))
            continue;
        end_run();
        first = i;
        run = std::make_unique<ElementRun>();
        if (!run->add(bound, i))
            run.reset();
    }
    end_run();
    return runs;
}

} // namespace trivium
