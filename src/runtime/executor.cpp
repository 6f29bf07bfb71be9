#include "runtime/executor.hpp"

#include "base/check.hpp"
#include "runtime/dtypes.hpp"
#include "schedule/memory.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace trivium {

namespace {

Seconds now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::size_t output_index(const Graph& graph, std::string_view name)
{
    for (std::size_t i = 0; i < graph.outputs.size(); ++i)
        if (graph[graph.outputs[i]].name == name)
            return i;
    throw InternalError(__FILE__, __LINE__, str("the graph has no output '", name, "'"));
}

} // namespace

/// Poisons dead buffers and watches the red zones behind live ones.
struct Executor::Guard {
    static constexpr int dead = 0xFF; // NaN in every floating-point type
    static constexpr int zone = 0xC3;
    /// Scratch may be far larger than what a call uses: all of it is filled once, later on where calls begin to use it.
    static constexpr Bytes scratch_head = Bytes{1} << 18;

    std::vector<std::vector<BufferId>> dying;
    std::vector<bool> live, filled;
    std::vector<std::pair<std::size_t, BufferId>> late; ///< moves, and buffers that die with them

    explicit Guard(const Schedule& schedule) : dying(dying_buffers(schedule)), live(schedule.buffers.size(), false), filled(live) {}
};

Executor::Executor(const Graph& graph, const Schedule& schedule, Arena& arena, const ExecutorConfig& config, const Grid* grid)
    : graph_(graph), schedule_(schedule), arena_(arena), config_(config), dispatch_(config.threads)
{
    exec_.threads = config.threads;
    const auto address = [&](BufferId id) -> void* {
        const Buffer& b = schedule_[id];
        TRV_CHECK(b.offset >= 0 && b.offset + b.bytes <= arena_.size(), "buffer ", b.name, " lies outside the arena");
        return arena_.at(b.offset);
    };
    calls_.resize(schedule_.steps.size());
    moves_.resize(schedule_.steps.size());
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
        const Step& step = schedule_.steps[i];
        if (step.kind != StepKind::op)
            continue;
        Binding binding;
        binding.graph = &graph_;
        binding.op = &graph_[step.op];
        for (const BufferId id : step.operands)
            binding.operands.push_back(address(id));
        for (const BufferId id : step.results)
            binding.results.push_back(address(id));
        if (step.scratch)
            binding.scratch = {address(step.scratch), schedule_[step.scratch].bytes};
        binding.overwrite = !binding.op->accumulate || step.overwrite;
        if (info(*binding.op).communicates) {
            TRV_CHECK(grid, "a step communicates, and there is no grid");
            moves_[i] = bind_communication(binding, *grid);
            continue;
        }
        calls_[i] = dispatch_.bind(binding);
    }
    for (const ValueId id : graph_.outputs)
        fetched_.emplace_back(static_cast<std::size_t>(graph_[id].type.bytes()));
    if constexpr (contracts_on)
        guard_ = std::make_unique<Guard>(schedule_);
    timeline_.spans.resize(schedule_.steps.size());
}

Executor::~Executor() = default;

void Executor::run_until_decision(const Feed& feed)
{
    if (guard_) // a step whose update was not run leaves buffers behind that nothing needs any more
        guard_->live.assign(guard_->live.size(), false);
    exposed_ = 0;
    run_steps(0, schedule_.decision, &feed);
}
void Executor::run_after_decision() { run_steps(schedule_.decision, schedule_.steps.size(), nullptr); }

void Executor::run_steps(std::size_t begin, std::size_t end, const Feed* feed)
{
    for (std::size_t i = begin; i < end; ++i) {
        for (const StepId wait : schedule_.steps[i].waits)
            finish_move(wait.index());
        drive_moves();
        const Seconds start = config_.trace ? now() : 0;
        if (config_.trace)
            timeline_.spans[i].begin = start;
        run_step(i, feed);
        if (config_.trace && !moves_[i])
            timeline_.spans[i].end = now();
    }
    while (!under_way_.empty())
        finish_move(under_way_.front());
}

void Executor::touch(const Step& step)
{
    const auto each = [&](auto&& visit) {
        for (const BufferId id : step.operands)
            visit(id);
        for (const BufferId id : step.results)
            visit(id);
        if (step.scratch)
            visit(step.scratch);
    };
    each([&](BufferId id) { used_ = std::max(used_, schedule_[id].offset + schedule_[id].bytes); });
    if (!guard_ || config_.red_zone == 0)
        return;
    each([&](BufferId id) {
        const Buffer& b = schedule_[id];
        if (b.lifetime != Lifetime::run && !guard_->live[id.index()] && b.offset + b.bytes + config_.red_zone <= arena_.size())
            std::memset(arena_.at(b.offset + b.bytes), Guard::zone, static_cast<std::size_t>(config_.red_zone));
        guard_->live[id.index()] = true;
    });
}

void Executor::run_step(std::size_t i, const Feed* feed)
{
    const Step& step = schedule_.steps[i];
    // Moves of one queue take turns; what one has used may be the next one's.
    if (moves_[i])
        for (const std::size_t other : std::vector<std::size_t>(under_way_))
            if (schedule_.steps[other].queue == step.queue)
                finish_move(other);
    touch(step);
    switch (step.kind) {
    case StepKind::op: moves_[i] ? begin_move(i) : calls_[i](exec_); break;
    case StepKind::feed: (*feed)(graph_[step.value], step.microbatch, arena_.at(schedule_[step.results[0]].offset)); break;
    case StepKind::fetch: {
        std::vector<std::byte>& to = fetched_[output_index(graph_, graph_[step.value].name)];
        std::memcpy(to.data(), arena_.at(schedule_[step.operands[0]].offset), to.size());
        break;
    }
    }
    if (!guard_)
        return;
    for (std::size_t n = 0; n < schedule_.buffers.size(); ++n) {
        const Buffer& b = schedule_.buffers[n];
        if (b.lifetime == Lifetime::run || !guard_->live[n] || config_.red_zone == 0 ||
            b.offset + b.bytes + config_.red_zone > arena_.size())
            continue;
        const std::byte* zone = arena_.at(b.offset + b.bytes);
        TRV_CHECK(std::all_of(zone, zone + config_.red_zone, [](std::byte x) { return x == std::byte{Guard::zone}; }),
                  "step ", i, " (", step.kind == StepKind::op ? info(graph_[step.op]).name : "copy", ") wrote behind ", b.name);
    }
    bury(guard_->dying[i]);
}

void Executor::bury(const std::vector<BufferId>& dead)
{
    for (const BufferId id : dead) {
        // What a move still uses dies with the move.
        const auto uses = [&](std::size_t move) {
            const Step& step = schedule_.steps[move];
            return std::find(step.operands.begin(), step.operands.end(), id) != step.operands.end() ||
                   std::find(step.results.begin(), step.results.end(), id) != step.results.end() || step.scratch == id;
        };
        if (const auto move = std::find_if(under_way_.begin(), under_way_.end(), uses); move != under_way_.end()) {
            guard_->late.emplace_back(*move, id);
            continue;
        }
        const Buffer& b = schedule_[id];
        const bool head_only = b.kind == MemoryKind::scratch && guard_->filled[id.index()];
        std::memset(arena_.at(b.offset), Guard::dead, static_cast<std::size_t>(head_only ? std::min(b.bytes, Guard::scratch_head) : b.bytes));
        guard_->filled[id.index()] = true;
        guard_->live[id.index()] = false;
    }
}

void Executor::begin_move(std::size_t i)
{
    moves_[i]->start();
    under_way_.push_back(i);
    if (!config_.overlap && !schedule_.steps[i].results.empty()) // who takes a message may first wait for one of ours
        finish_move(i);
}

void Executor::finish_move(std::size_t i)
{
    if (std::find(under_way_.begin(), under_way_.end(), i) == under_way_.end())
        return;
    const Seconds begin = now();
    // A peer may wait for another move of ours before it goes on with this one.
    const auto under_way = [&] { return std::find(under_way_.begin(), under_way_.end(), i) != under_way_.end(); };
    for (drive_moves(); under_way() && under_way_.size() > 1; drive_moves())
        std::this_thread::yield();
    if (under_way()) {
        moves_[i]->finish();
        move_is_over(i);
    }
    exposed_ += now() - begin;
}

void Executor::drive_moves()
{
    for (const std::size_t i : std::vector<std::size_t>(under_way_))
        if (moves_[i]->progress())
            move_is_over(i);
}

void Executor::move_is_over(std::size_t i)
{
    std::erase(under_way_, i);
    if (config_.trace)
        timeline_.spans[i].end = now();
    if (!guard_)
        return;
    std::vector<BufferId> dead;
    std::erase_if(guard_->late, [&](const auto& entry) {
        if (entry.first == i)
            dead.push_back(entry.second);
        return entry.first == i;
    });
    bury(dead);
}

double Executor::fetched(std::string_view name, i64 element) const
{
    const std::size_t at = output_index(graph_, name);
    const TensorType& type = graph_[graph_.outputs[at]].type;
    TRV_CHECK(element >= 0 && element < type.elements(), "output '", name, "' has ", type.elements(), " elements");
    return with_type(type.dtype, [&](auto t) {
        decltype(t) value;
        std::memcpy(&value, fetched_[at].data() + static_cast<Bytes>(sizeof value) * element, sizeof value);
        return static_cast<double>(value);
    });
}

const std::byte* Executor::fetched_data(std::string_view name) const { return fetched_[output_index(graph_, name)].data(); }

} // namespace trivium
