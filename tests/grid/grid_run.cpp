#include "grid/grid_run.hpp"
#include "choose/decide.hpp"
#include "grid/documents.hpp"
#include "passes/layer_norms.hpp"

#include "base/check.hpp"
#include "base/rng.hpp"
#include "runtime/communication.hpp"
#include "runtime/device.hpp"
#include "runtime/initialise.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace trivium::grids {

namespace {

/// One rank's shard of a tensor.
class Collector {
public:
    explicit Collector(Comm& world) : world_(world) {}

    void add(const std::string& name, const Shape& whole, const Box& box, const TensorType& in_arena,
             const Arenas& arenas, const Buffer& buffer)
    {
        HostWindow window(arenas.of(buffer.space), buffer.offset, in_arena.bytes());
        window.pull();
        std::string& part = parts_;
        const auto number = [&](i64 value) {
            part.append(reinterpret_cast<const char*>(&value), sizeof value);
        };
        number(static_cast<i64>(name.size()));
        part += name;
        number(element_count(whole));
        number(element_count(box.shape));
        with_type(in_arena.dtype, [&](auto t) {
            const auto* typed = reinterpret_cast<const decltype(t)*>(window.data());
            reference::Vector values;
            for_each_run(whole, box, [&](i64 global, i64 local, i64 count) {
                values.assign(typed + local, typed + local + count);
                number(global);
                number(count);
                part.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
            });
        });
    }

    reference::Tensors collect()
    {
        std::map<std::string, Whole> all;
        for (const std::string& part : gather_texts(world_, parts_)) {
            const char* at = part.data();
            const auto number = [&] {
                i64 value = 0;
                std::memcpy(&value, at, sizeof value);
                at += sizeof value;
                return value;
            };
            while (at < part.data() + part.size()) {
                const auto length = static_cast<std::size_t>(number());
                const std::string name(at, length);
                at += length;
                Whole& tensor = all[name];
                tensor.values.resize(static_cast<std::size_t>(number()));
                tensor.known.resize(tensor.values.size());
                for (i64 left = number(); left > 0;) {
                    const auto first = static_cast<std::size_t>(number());
                    const i64 count = number();
                    add_run(name, tensor, first, {at, static_cast<std::size_t>(count) * sizeof(double)});
                    at += static_cast<std::size_t>(count) * sizeof(double);
                    left -= count;
                }
            }
        }
        reference::Tensors made;
        for (auto& [name, tensor] : all) {
            TRV_CHECK(std::find(tensor.known.begin(), tensor.known.end(), false) == tensor.known.end(),
                      "no rank has a part of ", name);
            made[name] = std::move(tensor.values);
        }
        return made;
    }

private:
    struct Whole {
        reference::Vector values;
        std::vector<char> known; ///< not of bool: there are millions of elements
    };

    static void add_run(const std::string& name, Whole& tensor, std::size_t first, std::string_view run)
    {
        for (std::size_t i = first; !run.empty(); ++i, run.remove_prefix(sizeof(double))) {
            double value = 0;
            std::memcpy(&value, run.data(), sizeof value);
            double& known = tensor.values[i];
            TRV_CHECK(!tensor.known[i] || std::memcmp(&known, &value, sizeof value) == 0, name, "[", i,
                      "] differs between ranks: ", known, " and ", value);
            known = value;
            tensor.known[i] = true;
        }
    }

    Comm& world_;
    std::string parts_;
};

} // namespace

namespace {

/// ", adapters of rank 2 …"; empty: all is trained.
std::string text_of(const TrainedParameters& trained)
{
    std::string text;
    const auto list = [&](const char* what, const std::vector<std::string>& patterns) {
        for (const std::string& pattern : patterns)
            text += str(&pattern == patterns.data() ? what : " ", pattern);
    };
    list(", frozen ", trained.freeze);
    const LoraConfig& lora = trained.lora;
    if (lora.rank == 0)
        return text;
    text += str(", adapters of rank ", lora.rank, lora.rank_stable ? " (stable)" : "",
                lora.magnitudes ? " with magnitudes" : "", " scaled by ", trained.scale(),
                lora.dropout > 0 ? str(", dropout ", lora.dropout) : "");
    list(" of ", lora.targets);
    list(" next to ", lora.train);
    return text;
}

} // namespace

std::string Case::text() const
{
    const ParallelConfig& p = parallel;
    return str(
        mixed         ? name_of(*mixed)
        : model.llama ? "llama"
                      : "gpt2",
        model.tied ? " tied" : "", model.z_loss > 0 ? " regularised" : "", ", ", name_of(precision),
        p.reduce == GradientType::bf16 ? " reduced in bf16" : "",
        p.accumulate == GradientType::bf16 ? " accumulated in bf16" : "",
        optimizer == OptimizerKind::adamw ? "" : str(", ", name_of(optimizer)), ", ", model.layers,
        " layers, dim ", model.dim, ", ", model.heads, " heads (", model.kv_heads, "), ffn ", model.ffn,
        ", vocab ", model.vocab, ", seq ", model.seq, text_of(trained), "; ", describe_degrees(p),
        p.context > 1 ? str(" (", name_of(p.context_form), ", ", p.context_heads, " by heads)") : "", ", ",
        p.schedule, ", zero ", p.zero, shards_in_groups(p) ? str(" in groups of ", p.shard) : "",
        p.gather_every == GatherEvery::automatic ? "" : str(" gathered every ", name_of(p.gather_every)),
        p.reduce_every == ReduceEvery::automatic ? "" : str(" reduced every ", name_of(p.reduce_every)),
        p.recompute == Recompute::none ? "" : str(", recompute ", name_of(p.recompute)),
        p.sequence ? ", sequence" : "", p.expert > 1 ? str(", ", p.expert, " share experts") : "", ", ", rows,
        " rows", packing ? str(" of documents (", name_of(*packing), apart ? ", apart)" : ")") : "",
        " in microbatches of ", micro_batch, ", bucket ", p.bucket, p.overlap ? "" : ", no overlap",
        p.tile > 0 ? str(", tile ", p.tile) : "",
        p.offload == Offload::none ? "" : str(", offload ", name_of(p.offload)),
        p.update == UpdateMode::synchronous ? "" : ", post-validated",
        counts_all ? ", some batches count all tokens" : "");
}

Case alone(const Case& c)
{
    Case one = c;
    one.parallel = {};
    one.apart = c.packing.has_value();
    one.micro_batch = one.sequences();
    return one;
}

runs::TokenBatch batch_of(const Case& c, int step)
{
    if (!c.batches.empty())
        return c.batches[static_cast<std::size_t>(step)];
    const u64 seed = static_cast<u64>(step) + 3;
    runs::TokenBatch batch = runs::random_batch(c.model, c.rows, seed);
    if (c.packing)
        draw_documents(batch, *c.packing, seed);
    if (c.counts_all && step % 2 == 1 && c.packing != SamplePacking::best_fit) // which has padding
        for (std::int32_t& target : batch.targets)
            target = std::max(target, 0);
    return c.apart ? documents_apart(batch, c.sequences()) : batch;
}

Case narrow_case()
{
    Case c;
    c.model.layers = 3;
    c.model.kv_heads = 2;
    c.model.heads = 4;
    c.model.dim = 8;
    c.model.ffn = 11;
    c.model.vocab = 11;
    c.model.seq = 8;
    return c;
}

RunConfig config_of(const Case& c)
{
    RunConfig config = runs::config_of(c.model, c.precision, c.sequences(), 1);
    if (c.mixed)
        set_options(config.model, *c.mixed);
    config.parallel = c.parallel;
    config.parallel.threads = 1;
    config.train.micro_batch = c.micro_batch;
    config.train.optimizer = c.optimizer;
    config.train.grad_clip = c.clip;
    config.train.freeze = c.trained.freeze;
    config.train.lora = c.trained.lora;
    config.train.ema = c.average;
    config.log.layer_norms = c.norms ? 1 : 0;
    if (config.model.experts > 0 && c.model.z_loss > 0 && !c.packing) { // whose losses are per sequence
        config.train.balance_loss = 0.1;
        config.train.router_z_loss = 0.01;
    }
    if (c.packing && !c.apart) {
        config.data.packing = *c.packing;
        config.data.attention = SampleAttention::document;
    }
    resolve_and_validate(config);
    return config;
}

Compiled compile(const Case& c, i64 rank)
{
    CompileConfig options = runs::small_machine();
    options.rank = rank;
    return compile_training(config_of(c), options);
}

void lay_out_again(Compiled& compiled)
{
    compiled.programs.resize(1); // the memory plan of `eval` was made with the old graph
    ArenaPlans arenas = lay_out(compiled.programs, {runs::small_machine().machine.scratch});
    compiled.memory = arenas.device;
    compiled.host = arenas.host;
}

reference::Tensors collect(Comm& world, const Program& program, const Arenas& arenas, Role role)
{
    Collector all(world);
    for (const ValueId id : program.graph.with_role(role)) {
        const Value& v = program.graph[id];
        all.add(v.name, whole_shape(v), box_of(program.graph, v), v.type, arenas,
                kept_buffer(program.schedule, v.name));
    }
    return all.collect();
}

namespace {

/// `all_sums`: also those that other updates read. With Muon they may be gathered after the decision, with
/// its directions.
reference::Tensors collect_gradients(Comm& world, const Program& program, const Arenas& arenas, bool all_sums)
{
    const Graph& g = program.graph;
    Collector all(world);
    for (const ValueId id : g.with_role(Role::parameter)) {
        if (!is_trained(g[id]) && (g[id].update.kind == UpdateKind::frozen || !all_sums))
            continue;
        const Shape& whole = whole_shape(g[id]);
        const auto [gradient, buffer] = runs::gradient_place(program, g[id].name);
        all.add(g[id].name, whole, box_of(whole, g[gradient].sharding, g.mesh, g.at), g[gradient].type,
                arenas, *buffer);
    }
    return all.collect();
}

} // namespace

namespace {

void set_parameters(const Program& program, const Arenas& arenas,
                    const std::function<double(const std::string&, i64)>& values)
{
    for (const ValueId id : program.graph.with_role(Role::parameter)) {
        const Value& v = program.graph[id];
        HostWindow window = kept_window(program.schedule, v.name, arenas);
        with_type(v.type.dtype, [&](auto t) {
            auto* to = reinterpret_cast<decltype(t)*>(window.data());
            for_each_run(whole_shape(v), box_of(program.graph, v), [&](i64 global, i64 local, i64 count) {
                for (i64 i = 0; i < count; ++i)
                    to[local + i] =
                        decltype(t)(static_cast<kernels::Acc<decltype(t)>>(values(v.name, global + i)));
            });
        });
        window.push();
    }
}

} // namespace

Outcome train(const Case& c, Comm& ranks, Compiled compiled, const Meddle& meddle)
{
    const RunConfig config = config_of(c);
    Program& program = compiled.programs[train_program];
    if (meddle.graph) {
        meddle.graph(program.graph);
        lay_out_again(compiled);
    }
    const std::unique_ptr<Comm> meddled = meddle.comm ? meddle.comm(ranks, program) : nullptr;
    Comm& world = meddled ? *meddled : ranks;
    Grid grid(world, program.graph.mesh, "node", {}, joint_axes(compiled));
    if (world.size() > 1)
        open_devices(grid); // if the build has any
    Engine engine(std::move(compiled), {.overlap = config.parallel.overlap, .graphs = meddle.graphs}, &grid,
                  meddle.streams);
    const Program& train = engine.program(train_program);
    engine.initialise(1);
    draw_parameters(train, engine.arenas(), 7, "test", c.spread);
    if (c.initial)
        set_parameters(train, engine.arenas(), c.initial);

    std::vector<runs::TokenBatch> data;
    std::vector<Hyper> hypers;
    i64 updates = 0;
    for (int step = 0; step < c.steps; ++step) {
        data.push_back(batch_of(c, step));
        const bool refused = c.refused.contains(step);
        const auto t = static_cast<double>(updates += refused ? 0 : 1);
        hypers.push_back(
            {refused ? NAN : c.lr, 0.9, 0.95, 1e-8, 1 - std::pow(0.9, t), 1 - std::pow(0.95, t)});
    }
    Outcome outcome;
    outcome.initial = collect(ranks, train, engine.arenas(), Role::parameter);
    for (int step = 0; step < c.steps; ++step) {
        const auto at = static_cast<std::size_t>(step);
        StepCalls calls;
        calls.accept = [&](const StepResult&) {
            if (step == 0)
                outcome.gradients =
                    collect_gradients(ranks, train, engine.arenas(), c.optimizer != OptimizerKind::muon);
            return !c.refused.contains(step);
        };
        Ahead ahead;
        // Deferred streams work only while the host waits for them, so no step is begun before ranks meet to
        // collect gradients.
        if (step + 1 < c.steps && !(meddle.streams && step == 0) && !c.norms) {
            ahead = {runs::rows_of(data[at + 1]), hypers[at + 1]};
            calls.ahead = &ahead;
        }
        if (c.norms)
            engine.remember_weights();
        const StepResult result = engine.step(runs::rows_of(data[at]), hypers[at], calls);
        if (c.norms)
            outcome.last_norms = engine.norms_after(result);
        outcome.losses.push_back(result.loss.mean());
        outcome.norms.push_back(result.norm);
    }
    if (meddle.settle)
        meddle.settle();
    outcome.parameters = collect(ranks, train, engine.arenas(), Role::parameter);
    outcome.moments = collect(ranks, train, engine.arenas(), Role::state);
    if (meddle)
        return outcome;

    const auto evaluated = [&](std::size_t by) {
        LossSum loss;
        for (i64 first = 0; first < c.sequences(); first += engine.evaluation_rows()) {
            const LossSum batch = engine.evaluate(runs::rows_of(data.back(), first), by);
            loss.sum += batch.sum;
            loss.tokens += batch.tokens;
        }
        return loss.mean();
    };
    outcome.evaluation = evaluated(eval_program);
    if (c.average > 0)
        outcome.average_evaluation = evaluated(*program_called(engine.compiled(), average_evaluation));
    if (c.norms)
        outcome.norm_names = norm_parameters(*train.sharded);
    for (const Space space : {Space::device, Space::host}) {
        Bytes used = 0;
        for (std::size_t by = 0; by < engine.compiled().programs.size(); ++by)
            used = std::max(used, engine.executor(by).used(space));
        TRV_CHECK(used == engine.planned(space), "rank ", world.rank(), " used ", used, " bytes of the ",
                  name_of(space), ", planned are ", engine.planned(space));
        if constexpr (contracts_on)
            TRV_CHECK(engine.used(space) == engine.planned(space), "rank ", world.rank(), " touched ",
                      engine.used(space), " bytes of the ", name_of(space), ", planned are ",
                      engine.planned(space));
    }
    return outcome;
}

Outcome train_on_threads(const Case& c, const Meddle& meddle)
{
    TRV_CHECK(!computes_on_device() || c.ranks() == 1, "threads of one process do not share a device");
    runs::start_runtime();
    std::vector<Compiled> compiled;
    compile_ranks(
        decide(config_of(c), runs::small_machine().machine), runs::small_machine(),
        [](const Mesh&, i64) { return true; },
        [&](i64, Compiled& rank) {
            compiled.push_back(std::move(rank));
            return true;
        });
    Outcome outcome;
    run_on_threads(static_cast<int>(c.ranks()), [&](Comm& world) {
        const auto rank = static_cast<std::size_t>(world.rank());
        Outcome mine = train(c, world, std::move(compiled[rank]), meddle);
        if (rank == 0)
            outcome = std::move(mine);
    });
    return outcome;
}

bool same_bits(const Outcome& a, const Outcome& b)
{
    const auto same = [](const reference::Vector& x, const reference::Vector& y) {
        return x.size() == y.size() &&
               (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0);
    };
    const auto all = [&](const reference::Tensors& x, const reference::Tensors& y) {
        return std::equal(x.begin(), x.end(), y.begin(), y.end(), [&](const auto& p, const auto& q) {
            return p.first == q.first && same(p.second, q.second);
        });
    };
    return same(a.losses, b.losses) && same(a.norms, b.norms) && same({a.evaluation}, {b.evaluation}) &&
           all(a.initial, b.initial) && all(a.gradients, b.gradients) && all(a.parameters, b.parameters) &&
           all(a.moments, b.moments);
}

double largest_difference(const std::vector<double>& got, const std::vector<double>& want)
{
    double largest = got.size() == want.size() ? 0 : INFINITY;
    for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
        const double d = std::abs(got[i] - want[i]) / std::abs(want[i]);
        largest = std::isfinite(d) ? std::max(largest, d) : INFINITY;
    }
    return largest;
}

Differences differences(const Outcome& got, const Outcome& want)
{
    return {largest_difference(got.losses, want.losses),
            largest_difference(got.norms, want.norms),
            largest_difference(std::vector{got.evaluation}, std::vector{want.evaluation}),
            largest_difference(got.gradients, want.gradients),
            largest_difference(got.parameters, want.parameters),
            largest_difference(got.moments, want.moments)};
}

double Differences::most() const
{
    return std::max({losses, norms, evaluation, gradients, parameters, moments});
}

std::string Differences::text() const
{
    return str("losses ", losses, ", norms ", norms, ", evaluation ", evaluation, ", gradients ", gradients,
               ", parameters ", parameters, ", moments ", moments);
}

double largest_difference(const reference::Tensors& got, const reference::Tensors& want)
{
    double largest = got.size() == want.size() ? 0 : INFINITY;
    double everywhere = 0;
    for (const auto& [name, values] : want)
        for (const double value : values)
            everywhere = std::max(everywhere, std::abs(value));
    for (const auto& [name, values] : want) {
        const auto found = got.find(name);
        if (found == got.end() || found->second.size() != values.size())
            return INFINITY;
        double scale = 1e-3 * everywhere, difference = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
            scale = std::max(scale, std::abs(values[i]));
            const double d = std::abs(found->second[i] - values[i]);
            difference = std::isfinite(d) ? std::max(difference, d) : INFINITY;
        }
        largest = std::max(largest, difference / scale);
    }
    return largest;
}

} // namespace trivium::grids
