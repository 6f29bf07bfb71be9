#include "grid/programs.hpp"

#include "catch.hpp"

#include "base/check.hpp"
#include "choose/decide.hpp"
#include "grid/grid_run.hpp"
#include "ir/names.hpp"
#include "model/program.hpp"
#include "plan/check_steps.hpp"
#include "train/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

namespace trivium::grids {

double element_of(const std::string& input, i64 sample, i64 index)
{
    if (input == value_name::valid)
        return sample % 5 == 3 ? 0 : 1;
    return 2 * std::sin(12.9898 * static_cast<double>(index) + 78.233 * static_cast<double>(sample) +
                        static_cast<double>(input.size()));
}

i64 integer_of(i64 sample, i64 index, i64 classes) { return (7 * sample + 3 * index) % classes; }

RunConfig config_of(const ProgramCase& c)
{
    RunConfig config;
    set_family(config.model, Family::graph);
    config.model.file = c.name;
    config.model.sizes = c.sizes;
    config.model.program = read_program(c.text, c.name, c.sizes);
    config.parallel = c.parallel;
    config.parallel.threads = 1;
    config.train.precision = c.precision;
    config.train.optimizer = c.optimizer;
    config.train.global_batch = c.samples;
    config.train.micro_batch = c.micro_batch;
    config.train.lr = c.lr;
    resolve_and_validate(config);
    return config;
}

namespace {

Batch batch_at(const std::map<std::string, TensorType>& inputs, i64 first, i64 classes)
{
    Batch batch;
    batch.first = first;
    for (const auto& [name, type] : inputs)
        batch.arrays[name] = {
            type, [name = name, type = type, classes](i64 sample, const Box& box, void* to) {
                for_each_run(type.shape, box, [&](i64 global, i64 local, i64 count) {
                    for (i64 i = 0; i < count; ++i) {
                        const i64 at = local + i;
                        if (type.dtype == DType::i32)
                            static_cast<std::int32_t*>(to)[at] =
                                static_cast<std::int32_t>(integer_of(sample, global + i, classes));
                        else
                            with_type(type.dtype, [&](auto t) {
                                using T = decltype(t);
                                static_cast<T*>(to)[at] =
                                    T(static_cast<Acc<T>>(element_of(name, sample, global + i)));
                            });
                    }
                });
            }};
    return batch;
}

} // namespace

ProgramOutcome train_program(const ProgramCase& c, i64 classes)
{
    runs::start_runtime();
    const RunConfig config = config_of(c);
    std::vector<Compiled> compiled;
    compile_ranks(
        decide(config, runs::small_machine().machine), runs::small_machine(),
        [](const Mesh&, i64) { return true; },
        [&](i64, Compiled& rank) {
            compiled.push_back(std::move(rank));
            return true;
        });
    for (std::size_t p = 0; p < compiled[0].programs.size(); ++p) {
        std::vector<StageProgram> ranks;
        for (const Compiled& one : compiled)
            ranks.push_back({&one.programs[p].graph, &one.programs[p].schedule});
        const auto fault = find_fault(ranks, true);
        TRV_CHECK(!fault, compiled[0].programs[p].graph.name, ": ", fault ? fault->problem : "");
    }
    const auto inputs =
        inputs_per_sample(config.model, config.train.precision == Precision::f64    ? DType::f64
                                        : config.train.precision == Precision::bf16 ? DType::bf16
                                                                                    : DType::f32);
    ProgramOutcome outcome;
    run_on_threads(static_cast<int>(rank_count(config.parallel)), [&](Comm& world) {
        Compiled own = std::move(compiled[static_cast<std::size_t>(world.rank())]);
        Grid grid(world, mesh_of(config.parallel), "node", {}, joint_axes(own));
        Engine engine(std::move(own), {}, &grid);
        engine.initialise(1);
        const Program& train = engine.program(trivium::train_program);
        ProgramOutcome mine;
        for (int step = 1; step <= c.steps; ++step) {
            const bool refused = c.refused.contains(step);
            const StepResult result = engine.step(batch_at(inputs, (step - 1) * c.samples, classes),
                                                  hyper_of(config.train, refused ? NAN : c.lr, step),
                                                  {.accept = [&](const StepResult&) { return !refused; }});
            mine.losses.push_back(result.loss.mean());
            mine.norms.push_back(result.norm);
        }
        mine.parameters = collect(world, train, engine.arenas(), Role::parameter);
        mine.moments = collect(world, train, engine.arenas(), Role::state);
        LossSum all;
        std::vector<LossSum> metrics;
        std::map<std::pair<std::size_t, i64>, std::vector<float>> shown; // by output and sample
        for (i64 first = 0; first < c.samples; first += engine.evaluation_rows()) {
            const LossSum sum = engine.evaluate(batch_at(inputs, first, classes));
            all.sum += sum.sum;
            all.tokens += sum.tokens;
            const std::vector<LossSum> own_metrics = engine.metrics();
            metrics.resize(own_metrics.size());
            for (std::size_t i = 0; i < metrics.size(); ++i) {
                metrics[i].sum += own_metrics[i].sum;
                metrics[i].tokens += own_metrics[i].tokens;
            }
            const Graph& graph = engine.program(eval_program).graph;
            for (std::size_t i = 1; i < graph.outputs.size(); ++i) {
                const Value& value = graph[graph.outputs[i]];
                const auto* numbers =
                    reinterpret_cast<const float*>(engine.executor(eval_program).fetched_data(value.name));
                const i64 rows = value.type.shape[0], each = value.type.elements() / rows;
                for (i64 row = 0; row < rows && first + row < config.log.samples; ++row)
                    shown[{i, first + row}].assign(numbers + row * each, numbers + (row + 1) * each);
            }
        }
        for (const auto& [place, numbers] : shown)
            mine.shown.insert(mine.shown.end(), numbers.begin(), numbers.end());
        mine.evaluation.push_back(all.mean());
        for (const LossSum& metric : metrics)
            mine.evaluation.push_back(metric.mean());
        // With contracts, what was written: a step that is done again may need most, and need not happen.
        const bool is_exact = !contracts_on || config.parallel.update == UpdateMode::synchronous;
        const Bytes used = engine.used();
        TRV_CHECK(is_exact ? used == engine.planned() : used <= engine.planned(), "rank ", world.rank(),
                  " used ", used, " bytes, planned are ", engine.planned());
        if (world.rank() == 0)
            outcome = std::move(mine);
    });
    return outcome;
}

Graph first_rank_of(const ProgramCase& c)
{
    Graph graph;
    compile_ranks(
        decide(config_of(c), runs::small_machine().machine), runs::small_machine(),
        [](const Mesh&, i64 rank) { return rank == 0; },
        [&](i64, Compiled& rank) {
            graph = std::move(rank.programs[0].graph);
            return false;
        });
    return graph;
}

ProgramDifferences differences(const ProgramOutcome& got, const ProgramOutcome& want)
{
    ProgramDifferences all{
        largest_difference(got.losses, want.losses), largest_difference(got.norms, want.norms), 0,
        largest_difference(got.parameters, want.parameters), largest_difference(got.moments, want.moments)};
    all.evaluation = got.evaluation.size() == want.evaluation.size() ? 0 : INFINITY;
    for (std::size_t i = 0; i < std::min(got.evaluation.size(), want.evaluation.size()); ++i)
        all.evaluation = std::max(all.evaluation, std::abs(got.evaluation[i] - want.evaluation[i]));
    all.shown = got.shown.size() == want.shown.size() ? 0 : INFINITY;
    for (std::size_t i = 0; i < std::min(got.shown.size(), want.shown.size()); ++i)
        all.shown = std::max(all.shown, std::abs(got.shown[i] - want.shown[i]));
    return all;
}

double ProgramDifferences::most() const { return std::max({losses, norms, evaluation, parameters, moments}); }

std::string ProgramDifferences::text() const
{
    return str("losses ", losses, ", norms ", norms, ", evaluation ", evaluation, ", shown ", shown,
               ", parameters ", parameters, ", moments ", moments);
}

std::string example_text(const std::string& name)
{
    std::ifstream file(std::string(TRIVIUM_EXAMPLES) + "/" + name);
    std::stringstream text;
    text << file.rdbuf();
    REQUIRE(text.str().size() > 0);
    return text.str();
}

std::string batch_norm_lines(bool averages)
{
    const auto choose = [&](const char* with, const char* without) { return averages ? with : without; };
    return str(choose(R"(  parameter %mean.$i : f32[channels] init fill(value=0.0) update average(decay=0.9)
  parameter %variance.$i : f32[channels] init fill(value=1.0) update average(decay=0.75)
)",
                      ""),
               R"(  parameter %g.$i : f32[channels] init fill(value=1.0)
  %s.$i = reduce(%c.$i) {combine="sum", dims="0 2 3"} : compute[channels]
  %m.$i = affine(%s.$i) {alpha=1.0/numbers} : f32[channels]
  %mr.$i = )",
               choose("running_statistic(%mean.$i, %m.$i)", "affine(%m.$i) {alpha=1.0}"), R"( : f32[channels]
  %mb.$i = broadcast(%mr.$i) {dims="1", shape="b channels rows columns"} : f32[b,channels,rows,columns]
  %z.$i = subtract(%c.$i, %mb.$i) : f32[b,channels,rows,columns]
  %zz.$i = multiply(%z.$i, %z.$i) : f32[b,channels,rows,columns]
  %v.$i = reduce(%zz.$i) {combine="sum", dims="0 2 3"} : f32[channels]
  %vm.$i = affine(%v.$i) {alpha=1.0/numbers} : f32[channels]
  size less$i=numbers-1
  %vu.$i = affine(%v.$i) {alpha=1.0/less$i} : f32[channels]
  %vr.$i = )",
               choose("running_statistic(%variance.$i, %vm.$i, %vu.$i)", "affine(%vm.$i) {alpha=1.0}"),
               R"( : f32[channels]
  %ve.$i = affine(%vr.$i) {alpha=1.0, beta=1e-3} : f32[channels]
  %r.$i = rsqrt(%ve.$i) : f32[channels]
  %rg.$i = multiply(%r.$i, %g.$i) : f32[channels]
  %rb.$i = broadcast(%rg.$i) {dims="1", shape="b channels rows columns"} : f32[b,channels,rows,columns]
  %n.$i = multiply(%z.$i, %rb.$i) : f32[b,channels,rows,columns]
)");
}

ProgramCase on_mesh(ProgramCase one, const ProgramMesh& mesh)
{
    one.parallel.axes = mesh.axes;
    one.parallel.data = mesh.data;
    one.parallel.pipeline = mesh.pipeline;
    one.parallel.zero = mesh.zero;
    one.parallel.recompute = mesh.recompute;
    one.micro_batch = mesh.micro_batch;
    return one;
}

void check_same_on(const ProgramCase& one, i64 classes, const std::vector<ProgramMesh>& meshes)
{
    const ProgramOutcome want = train_program(one, classes);
    std::size_t n = 0;
    for (const ProgramMesh& m : meshes) {
        if (contracts_on && n++ % 4 != 0) // sanitizers take their time
            continue;
        const ProgramCase c = on_mesh(one, m);
        INFO(c.name << ": " << describe_degrees(config_of(c).parallel) << " zero " << m.zero << " recompute "
                    << name_of(m.recompute) << " micro batch " << m.micro_batch);
        ProgramDifferences d;
        try {
            d = differences(train_program(c, classes), want);
        } catch (const std::exception& e) {
            FAIL_CHECK(e.what());
            continue;
        }
        INFO(d.text());
        if (one.precision == Precision::f64)
            CHECK(d.most() < 1e-9);
        else
            CHECK(std::max({d.losses, d.norms, d.evaluation}) < 1e-4);
        CHECK(d.shown < (one.precision == Precision::f64 ? 1e-5 : 1e-2));
    }
}

} // namespace trivium::grids
