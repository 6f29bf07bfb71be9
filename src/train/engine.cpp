#include "train/engine.hpp"

#include "base/check.hpp"
#include "base/rng.hpp"
#include "ir/names.hpp"
#include "runtime/initialise.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace trivium {

namespace {

/// What the loss of a microbatch counts over all ranks if all does: targets, without any samples.
i64 most_counted(const Graph& sharded)
{
    const ValueId targets = sharded.find(value_name::targets);
    return targets ? sharded[targets].type.elements()
                   : sharded[sharded.with_role(Role::input).front()].type.shape[0];
}

/// A value of the executor. The sign of a NaN has no meaning, and is not to be printed.
double fetched(const Executor& executor, std::string_view name, i64 index)
{
    const double value = executor.fetched(name, index);
    return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

LossSum totals_of(const Executor& executor)
{
    return {fetched(executor, value_name::totals, total_loss),
            fetched(executor, value_name::totals, total_tokens)};
}

/// Without `updated`.
StepResult result_of(const Executor& executor, const Graph& train)
{
    StepResult result{totals_of(executor), fetched(executor, value_name::norm, 0)};
    const ValueId totals = train.find(value_name::totals);
    const Op& norm = train[train[train.find(value_name::norm)].producer];
    const auto* count = norm.attrs->lists.find(Attr::count); // others follow them
    const i64 all = train[totals].type.elements(), end = count ? total_squares + count->front() : all;
    for (i64 at = total_squares; at < all; ++at)
        (at < end ? result.squares : result.loads).push_back(fetched(executor, value_name::totals, at));
    return result;
}

} // namespace

Hyper hyper_of(const TrainConfig& t, double lr, i64 update)
{
    const auto n = static_cast<double>(update);
    return {lr, t.beta1, t.beta2, t.eps, 1 - std::pow(t.beta1, n), 1 - std::pow(t.beta2, n)};
}

ExecutorConfig executor_config(const RunConfig& config, int threads)
{
    return {.threads = threads,
            .trace = !config.log.trace.empty(),
            .overlap = config.parallel.overlap,
            .deterministic = config.parallel.deterministic,
            .cudnn = config.parallel.cudnn,
            .graphs = config.parallel.graphs};
}

Engine::Engine(Compiled compiled, ExecutorConfig config, const Grid* grid, const StreamsMaker& streams)
    : compiled_(std::move(compiled)), threads_(config.threads)
{
    const auto allocate = [&] { arenas_.emplace(compiled_.memory.arena, compiled_.host.arena); };
    if (grid != nullptr)
        succeed_together(grid->world(), allocate);
    else
        allocate();
    config.red_zone = compiled_.memory.red_zone;
    // Not in succeed_together(): on devices all ranks make an executor at the same time, and a failing rank
    // must not wait for the others.
    for (const Program& program : compiled_.programs)
        executors_.emplace_back(program.graph, program.schedule, *arenas_, config, grid, streams);
}

void Engine::initialise(std::uint64_t seed, std::optional<Role> role)
{
    const Program& first = compiled_.programs.front();
    trivium::initialise(first.graph, first.schedule, *arenas_, seed, threads_, role);
}

void draw_parameters(const Program& program, const Arenas& arenas, std::uint64_t seed,
                     const std::string& label, double spread)
{
    for (const ValueId id : program.graph.with_role(Role::parameter)) {
        const Value& v = program.graph[id];
        const auto* const filled = std::get_if<FillInit>(&*v.init); // 1 for the weights of most norms
        const double centre = filled ? filled->value : 0;
        const RandomStream stream(seed, label + " " + v.name);
        HostWindow window = kept_window(program.schedule, v.name, arenas);
        with_type(v.type.dtype, [&](auto t) {
            using T = decltype(t);
            auto* to = reinterpret_cast<T*>(window.data());
            for_each_run(whole_shape(v), box_of(program.graph, v), [&](i64 global, i64 local, i64 count) {
                for (i64 i = 0; i < count; ++i)
                    to[local + i] = T(static_cast<kernels::Acc<T>>(
                        centre + spread * stream.normal_at(static_cast<u64>(global + i))));
            });
        });
        window.push();
    }
}

Feed Engine::feed(std::size_t program, const Batch& batch, const Hyper* hyper, double factor) const
{
    return [&batch, hyper, factor, &graph = compiled_.programs[program].graph,
            microbatches = compiled_.programs[program].microbatches](const Value& value, i64 microbatch,
                                                                     void* destination) {
        if (value.role == Role::input) {
            fill_input(graph, value, batch, microbatch, destination);
        } else if (value.name == value_name::assumed) {
            const double norm[] = {0, factor};
            std::memcpy(destination, norm, sizeof norm);
        } else if (value.name == value_name::microbatches) {
            const auto count = static_cast<double>(microbatches);
            std::memcpy(destination, &count, sizeof count);
        } else {
            std::copy(hyper->begin(), hyper->end(), static_cast<double*>(destination));
        }
    };
}

StepResult Engine::step(const Batch& batch, const Hyper& hyper, const StepCalls& calls)
{
    if (is_post_validated())
        return step_and_validate(batch, hyper, calls);
    last_ = calls.program;
    Executor& executor = executors_[last_];
    executor.run_until_decision(feed(last_, batch, &hyper));
    StepResult result = result_of(executor, *compiled_.programs[last_].sharded);
    result.updated = !calls.accept || calls.accept(result);
    if (!result.updated)
        return result;
    if (calls.before_changes)
        calls.before_changes();
    executor.run_after_decision();
    return result;
}

double& Engine::assumed()
{
    assumed_.resize(compiled_.programs.size(), 0);
    double& factor = assumed_[last_];
    const Program& program = compiled_.programs[last_];
    if (factor == 0) // as the op global_norm computes it
        factor = 1.0 / static_cast<double>(program.microbatches * most_counted(*program.sharded));
    return factor;
}

StepResult Engine::step_and_validate(const Batch& batch, const Hyper& hyper, const StepCalls& calls)
{
    TRV_CHECK(!begun_ || last_ == calls.program, "a step of another program has begun");
    last_ = calls.program;
    Executor& train = executors_[last_];
    const double assumed = this->assumed();
    const Feed own = feed(last_, batch, &hyper, assumed);
    if (!begun_)
        train.run_until_decision(own);
    TRV_CHECK(!begun_ || std::memcmp(begun_->data(), hyper.data(), sizeof hyper) == 0,
              "a step began with other numbers"); // also NaN
    begun_.reset();
    if (calls.before_changes)
        calls.before_changes();
    train.run_after_decision(own);
    exposed_ = train.exposed();
    // After a repair, the next step would probably be abandoned too: gradients of some phases of a run are
    // all clipped.
    const bool goes_ahead = calls.ahead != nullptr && !was_repaired_;
    if (goes_ahead) {
        if (calls.ahead->meanwhile)
            calls.ahead->meanwhile();
        train.run_until_decision(feed(last_, calls.ahead->batch, &calls.ahead->hyper, assumed));
        begun_ = calls.ahead->hyper;
    } else {
        executors_[validate_program].run_until_decision({});
    }
    const Executor& decided = goes_ahead ? train : executors_[validate_program];
    StepResult result = result_of(decided, *compiled_.programs[last_].sharded);
    const double factor = decided.fetched(value_name::norm, 1);
    result.updated = !calls.accept || calls.accept(result);
    was_repaired_ = !result.updated || factor != assumed;
    if (was_repaired_) {
        abandon();
        executors_[restore_program].run_after_decision();
        if (result.updated) {
            const Feed again = feed(last_, batch, &hyper, factor);
            executors_[redo_program].run_until_decision(again);
            executors_[redo_program].run_after_decision(again);
        }
        if (result.loss.tokens > 0)
            this->assumed() = 1.0 / result.loss.tokens;
    }
    return result;
}

void Engine::abandon()
{
    if (begun_)
        executors_[last_].abandon();
    begun_.reset();
}

void Engine::remember_weights()
{
    TRV_CHECK(!begun_, "a step has begun");
    Executor& executor = executors_[*program_called(compiled_, trivium::remember_weights_program)];
    executor.run_until_decision({});
    executor.run_after_decision();
}

ParameterNorms Engine::norms_after(const StepResult& step)
{
    TRV_CHECK(!begun_, "a step has begun");
    Executor& executor = executors_[*program_called(compiled_, norms_program)];
    executor.run_until_decision({});
    ParameterNorms norms;
    const auto count = static_cast<i64>(step.squares.size());
    for (i64 i = 0; i < count; ++i) {
        norms.gradients.push_back(std::sqrt(step.squares[static_cast<std::size_t>(i)]) / step.loss.tokens);
        norms.weights.push_back(std::sqrt(fetched(executor, value_name::norms, i)));
        norms.updates.push_back(std::sqrt(fetched(executor, value_name::norms, count + i)));
    }
    return norms;
}

Seconds Engine::exposed() const { return exposed_ ? *exposed_ : executors_[last_].exposed(); }

i64 Engine::evaluation_rows(std::size_t program) const
{
    const Graph& graph = *compiled_.programs[program].sharded;
    return graph[graph.with_role(Role::input).front()].type.shape[0];
}

LossSum Engine::evaluate(const Batch& batch, std::size_t program)
{
    abandon(); // it uses the same memory
    executors_[program].run_until_decision(feed(program, batch, nullptr));
    return totals_of(executors_[program]);
}

std::vector<LossSum> Engine::metrics(std::size_t program) const
{
    const Graph& graph = compiled_.programs[program].graph;
    const i64 totals = graph[graph.find(value_name::totals)].type.elements();
    std::vector<LossSum> metrics;
    for (i64 at = total_squares; at + 1 < totals; at += 2)
        metrics.push_back({fetched(executors_[program], value_name::totals, at),
                           fetched(executors_[program], value_name::totals, at + 1)});
    return metrics;
}

Bytes Engine::used(Space space) const
{
    if (planned(space) == 0)
        return 0;
    if constexpr (contracts_on) // the bytes that were really written
        return arenas_->of(space).high_water();
    Bytes used = 0;
    for (const Executor& executor : executors_)
        used = std::max(used, executor.used(space));
    return used;
}

} // namespace trivium
