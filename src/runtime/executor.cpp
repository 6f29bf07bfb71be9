#include "runtime/executor.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "runtime/device.hpp"
#include "runtime/runner.hpp"
#include "runtime/streams.hpp"

#include <algorithm>
#include <cstring>
#include <map>

namespace trivium {

std::size_t output_index(const Graph& graph, std::string_view name)
{
    for (std::size_t i = 0; i < graph.outputs.size(); ++i)
        if (graph[graph.outputs[i]].name == name)
            return i;
    throw InternalError(__FILE__, __LINE__, str("the graph has no output '", name, "'"));
}

namespace {

/// For hang reports: "all_reduce over data of blocks.0.wq and 11 more, step 214 of 380, microbatch 3".
std::string describe_step(const Graph& graph, const Schedule& schedule, std::size_t index)
{
    const Step& step = schedule.steps[index];
    std::string text;
    if (step.kind != StepKind::op)
        text = str(step.kind == StepKind::feed ? "feed of " : "fetch of ", graph[step.value].name);
    else {
        const Op& op = graph[step.op];
        text = std::string(info(op).name);
        if (op.attrs->axis)
            text += " over " + *op.attrs->axis;
        const std::vector<ValueId>& values = op.results.empty() ? op.operands : op.results;
        if (!values.empty())
            text += str(" of ", graph[values.front()].name,
                        values.size() > 1 ? str(" and ", values.size() - 1, " more") : "");
        if (!op.scope.empty())
            text += str(" in ", op.scope);
    }
    return str(text, ", Step ", index, " of ", schedule.steps.size(),
               step.microbatch >= 0 ? str(", microbatch ", step.microbatch) : "");
}

} // namespace

NamedPieces::NamedPieces(const BoundSchedule& bound)
{
    Activity::of_process().set_pieces([&bound](i64 index) {
        return describe_step(bound.graph, bound.schedule, static_cast<std::size_t>(index));
    });
}

NamedPieces::~NamedPieces() { Activity::of_process().set_pieces({}); }

std::vector<std::byte>& BoundSchedule::fetched_by(const Step& step)
{
    return fetched[output_index(graph, graph[step.value].name)];
}

BoundSchedule::BoundSchedule(const Graph& g, const Schedule& s, const Arenas& a, const ExecutorConfig& c)
    : graph(g), schedule(s), arenas(a), config(c), dispatch(c.threads)
{
    const auto note = [&](BufferId id) {
        const Buffer& b = schedule[id];
        Bytes& end = used[static_cast<std::size_t>(b.space)];
        if (b.bytes > 0)
            end = std::max(end, b.offset + b.bytes);
    };
    for (const Step& step : schedule.steps) {
        std::ranges::for_each(step.operands, note);
        std::ranges::for_each(step.results, note);
        if (step.scratch)
            note(step.scratch);
    }
}

namespace {

/// The receives after the decision whose messages the peers send before their decision. Messages with one
/// tag to one peer stay in order, so their numbers decide. All ranks call it.
std::vector<std::size_t> find_outstanding(const Graph& graph, const Schedule& schedule, const Grid& grid)
{
    struct Messages {
        std::string axis;
        int peer = 0, tag = 0;
        bool sends = false;
        u64 early = 0, sent = 0; ///< before the decision; of receives: also by the peer
        std::vector<std::size_t> later{};
    };
    std::map<int, Messages> by_queue;
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
        const Step& step = schedule.steps[i];
        if (step.kind != StepKind::op || !(graph[step.op].attrs->to || graph[step.op].attrs->from))
            continue;
        const Attributes& a = graph[step.op].attrs;
        Messages& messages = by_queue[step.queue];
        messages.axis = *a.axis;
        messages.peer = static_cast<int>(a.to ? *a.to : *a.from);
        messages.tag = static_cast<int>(*a.tag);
        messages.sends = a.to.has_value();
        if (i < schedule.decision)
            ++messages.early;
        else
            messages.later.push_back(i);
    }
    std::vector<std::unique_ptr<Request>> requests;
    for (auto& [queue, m] : by_queue) {
        Comm& comm = grid.along(m.axis);
        requests.push_back(m.sends ? comm.send(m.peer, m.tag, as_piece(m.early))
                                   : comm.receive(m.peer, m.tag, as_piece(m.sent)));
    }
    for (const std::unique_ptr<Request>& request : requests)
        request->wait();
    std::vector<std::size_t> found;
    for (const auto& [queue, m] : by_queue) {
        if (m.sends)
            continue;
        TRV_CHECK(m.early <= m.sent && m.sent - m.early <= m.later.size(),
                  schedule.queues[static_cast<std::size_t>(queue)], ": ", m.early,
                  " receives before the decision, ", m.sent, " sends");
        found.insert(found.end(), m.later.begin(),
                     m.later.begin() + static_cast<std::ptrdiff_t>(m.sent - m.early));
    }
    return found;
}

std::unique_ptr<BoundSchedule> bind(const Graph& graph, const Schedule& schedule, const Arenas& arenas,
                                    const ExecutorConfig& config, const Grid* grid)
{
    auto bound = std::make_unique<BoundSchedule>(graph, schedule, arenas, config);
    const auto buffer = [&](BufferId id) {
        const Buffer& b = schedule[id];
        TRV_CHECK(b.offset >= 0 && b.offset + b.bytes <= arenas.of(b.space).size(), "buffer ", b.name,
                  " lies outside the arena");
        return bound->at(id);
    };
    const auto address = [&](BufferId id, ValueId v) -> void* {
        return buffer(id) + schedule.columns_of(v).first * size_of(graph[v].type.dtype);
    };
    const auto rows_of = [&](const std::vector<ValueId>& values, std::uint32_t accepted) {
        std::vector<i64> rows;
        for (const ValueId v : values) {
            rows.push_back(schedule.columns_of(v).apart);
            TRV_CHECK(rows.back() == 0 || (accepted >> (rows.size() - 1) & 1u) != 0, "%", graph[v].name,
                      " is columns of another value, of an op that needs it dense");
        }
        return rows;
    };
    bound->grid = grid && grid->world().size() > 1 ? grid : nullptr;
    if (bound->grid)
        open_links(graph, *grid);
    const std::size_t steps = schedule.steps.size();
    bound->bindings.resize(steps);
    bound->calls.resize(steps);
    bound->moves.resize(steps);
    for (std::size_t i = 0; i < steps; ++i) {
        const Step& step = schedule.steps[i];
        if (step.kind != StepKind::op)
            continue;
        Binding& binding = bound->bindings[i];
        binding.graph = &graph;
        binding.op = &graph[step.op];
        for (std::size_t k = 0; k < step.operands.size(); ++k)
            binding.operands.push_back(address(step.operands[k], binding.op->operands[k]));
        for (std::size_t k = 0; k < step.results.size(); ++k)
            binding.results.push_back(address(step.results[k], binding.op->results[k]));
        if (!schedule.columns.empty()) {
            binding.operand_rows = rows_of(binding.op->operands, info(*binding.op).may_be_columns.operands);
            binding.result_rows = rows_of(binding.op->results, info(*binding.op).may_be_columns.results);
        }
        if (step.scratch)
            binding.scratch = {buffer(step.scratch), schedule[step.scratch].bytes};
        binding.overwrite = !binding.op->accumulate || step.overwrite;
        binding.cudnn = config.cudnn;
        binding.deterministic = config.deterministic;
        if (info(*binding.op).communicates) {
            TRV_CHECK(grid, "a step communicates, but there is no grid");
            bound->moves[i] = bind_communication(binding, *grid, config.deterministic);
            continue;
        }
        bound->calls[i] = bound->dispatch.bind(binding);
    }
    if (bound->grid) {
        connect_devices(*grid);
        if (schedule.decides_early)
            bound->outstanding = find_outstanding(graph, schedule, *grid);
    }
    for (const ValueId id : graph.outputs)
        bound->fetched.emplace_back(static_cast<std::size_t>(graph[id].type.bytes()));
    bound->timeline.spans.resize(steps);
    return bound;
}

} // namespace

Executor::Executor(const Graph& graph, const Schedule& schedule, const Arenas& arenas,
                   const ExecutorConfig& config, const Grid* grid, const StreamsMaker& streams)
    : bound_(bind(graph, schedule, arenas, config, grid)), traceable_(config.trace)
{
    if (streams || computes_on_device())
        runner_ = make_stream_runner(*bound_, streams ? streams : make_device_streams);
    else
        runner_ = make_host_runner(*bound_);
}

Executor::~Executor() = default;

void Executor::run_until_decision(const Feed& feed) { runner_->run_until_decision(feed); }
void Executor::run_after_decision(const Feed& feed) { runner_->run_after_decision(feed); }
void Executor::abandon() { runner_->abandon(); }

double Executor::fetched(std::string_view name, i64 element) const
{
    const std::size_t at = output_index(bound_->graph, name);
    const TensorType& type = bound_->graph[bound_->graph.outputs[at]].type;
    TRV_CHECK(element >= 0 && element < type.elements(), "output '", name, "' has ", type.elements(),
              " elements");
    return with_tensor_type(type.dtype, [&](auto t) {
        decltype(t) value;
        std::memcpy(&value, bound_->fetched[at].data() + static_cast<Bytes>(sizeof value) * element,
                    sizeof value);
        return static_cast<double>(value);
    });
}

const std::byte* Executor::fetched_data(std::string_view name) const
{
    return bound_->fetched[output_index(bound_->graph, name)].data();
}

Bytes Executor::used(Space space) const { return bound_->used[static_cast<std::size_t>(space)]; }

Seconds Executor::exposed() const
{
    runner_->measure();
    return bound_->exposed;
}

const Timeline& Executor::timeline() const
{
    runner_->measure();
    return bound_->timeline;
}

void Executor::set_trace(bool on)
{
    TRV_CHECK(traceable_, "an executor that was made without trace");
    runner_->measure();
    bound_->config.trace = on;
}

} // namespace trivium
