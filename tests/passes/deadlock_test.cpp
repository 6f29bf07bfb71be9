// Simulates the Steps of all ranks of a grid without data: does every rank finish?
#include "base/check.hpp"
#include "catch.hpp"
#include "choose/decide.hpp"
#include "draw.hpp"
#include "has.hpp"
#include "io/files/config_file.hpp"
#include "ir/builder.hpp"
#include "plan/check_steps.hpp"
#include "small_run.hpp"
#include "soak_settings.hpp"

#include <algorithm>
#include <numeric>

using namespace trivium;

namespace {

std::string fault_of(const std::vector<Program>& programs, bool overlap)
{
    std::vector<StageProgram> ranks;
    for (const Program& program : programs)
        ranks.push_back({&program.graph, &program.schedule});
    const std::optional<StepFault> fault = find_fault(ranks, overlap);
    return fault ? fault->problem : "";
}

} // namespace

TEST_CASE("ranks that start their transfers in different orders are found")
{
    // Over one axis and over all, in this order on rank 0 and in the other on rank 1.
    const auto programs = [](bool alike) {
        std::vector<Program> all(2);
        for (const i64 rank : {0, 1}) {
            Graph& g = all[static_cast<std::size_t>(rank)].graph;
            g.mesh.axes = {{"tensor", 2}};
            g.at = {rank};
            Builder b(g);
            const ValueId x = b.value("x", {DType::f32, {4}}, Role::parameter);
            const bool turned = rank == 1 && !alike;
            for (const char* axis : {turned ? "world" : "tensor", turned ? "tensor" : "world"})
                b.all_reduce(x, axis, Combine::sum);
            all[static_cast<std::size_t>(rank)].schedule = build_schedule(g, {});
        }
        return all;
    };
    CHECK(fault_of(programs(true), true) == "");
    CHECK(fault_of(programs(true), false) == "");
    CHECK(fault_of(programs(false), true) == ""); // each axis has its own queue
    CHECK(fault_of(programs(false), false) != "");
}

namespace {

void require_no_deadlock(RunConfig c)
{
    for (const bool overlap : {true, false}) {
        c.parallel.overlap = overlap;
        std::vector<Program> train, eval;
        compile_ranks(
            decide(c, Machine{}), {}, [](const Mesh&, i64) { return true; },
            [&](i64, Compiled& compiled) {
                train.push_back(std::move(compiled.programs[train_program]));
                eval.push_back(std::move(compiled.programs[eval_program]));
                return true;
            });
        CHECK(fault_of(train, overlap) == "");
        CHECK(fault_of(eval, overlap) == "");
    }
}

} // namespace

TEST_CASE("no ranks of a grid wait for each other forever, with or without overlap")
{
    int cases = 0;
    for (const Grid& grid :
         {Grid{2, 2, 2, 1}, {1, 4, 1}, {2, 3, 2, 0, false}, {1, 2, 3}, {4, 1, 2, 1}, {2, 4, 1, 1}})
        for (std::size_t kind = 0; kind < names_of_enum<ScheduleKind>.size(); ++kind)
            for (const bool tied : {false, true}) {
                ++cases;
                // Half of them; with sanitizers, which take their time, fewer.
                if ((cases + cases / 20) % 2 == 0 || (contracts_on && cases % 13 != 0))
                    continue;
                const Family family = cases % 4 < 2 ? Family::gpt2 : Family::llama;
                RunConfig c = odd_config(family, grid, tied, cases % 3);
                c.train.micro_batch = 24 / grid.data / 6;
                c.parallel.schedule = names_of_enum<ScheduleKind>[kind];
                c.model.layers = 2 * grid.pipeline;
                c.parallel.bucket = cases % 4 == 0 ? "none" : cases % 4 == 1 ? "block" : "auto";
                INFO("data " << grid.data << " pipeline " << grid.pipeline << " tensor " << grid.tensor
                             << " tied " << tied << " " << c.parallel.schedule);
                require_no_deadlock(c);
            }
    CHECK(cases == 120);
}

// Both stages reduce their part of a tied table over replicas, in a bucket with tiles of other weights that
// are joined first, and then exchange it.
TEST_CASE("without overlap, ranks send before they wait for the other's part of a tied gradient")
{
    RunConfig c = odd_config(Family::llama, {4, 2, 1, 3}, true, 0);
    c.train.micro_batch = 24 / 4;
    c.parallel.schedule = "gpipe";
    c.parallel.shard = 2;
    c.parallel.tile = 300;
    c.parallel.bucket = "global";
    require_no_deadlock(c);
}

// One tensor rank contributes the norms of the first layers' replicated weights to the clipping. Where the
// embedding is frozen, no gradient of a shard comes after them.
TEST_CASE("ranks of a group that contribute different norms form the same buckets")
{
    for (const char* optimizer : {"adamw", "muon"})
        for (const char* bucket : {"block", "greedy", "global"}) {
            if (contracts_on && (optimizer != std::string("muon") || bucket != std::string("greedy")))
                continue; // sanitizers take their time
            RunConfig c = read_config("", {"model.preset=toy-deepseek3", "model.layers=4", "model.vocab=301",
                                           "model.seq=24", "train.precision=f32", "train.micro_batch=3",
                                           "train.global_batch=6", "train.freeze=['embed.*']",
                                           str("train.optimizer=", optimizer), "parallel.data=2",
                                           "parallel.tensor=2", "parallel.expert=2", "parallel.zero=1",
                                           "parallel.reduce=bf16", str("parallel.bucket=", bucket)});
            resolve_and_validate(c);
            INFO(optimizer << " " << bucket);
            require_no_deadlock(c);
        }
}

TEST_CASE("drawn runs do not wait forever", "[.]") // tests/soak
{
    Draw draw(soak::seed());
    const auto one_of = [&](const std::vector<std::string>& all) {
        return all[static_cast<std::size_t>(below(draw, static_cast<i64>(all.size())))];
    };
    const std::vector<std::pair<std::string, std::vector<std::string>>> keys{
        {"model.preset", {"toy", "toy-mixtral", "toy-deepseek3"}},
        {"model.layers", {"4", "6"}},
        {"model.vocab", {"301", "258"}},
        {"model.seq", {"16", "24"}},
        {"train.optimizer", {"adamw", "muon"}},
        {"train.freeze",
         {"[]", "['embed.*']", "['embed.*', 'layers.0.*']", "['layers.1.*']", "['head.*']", "['*norm*']",
          "['layers.*.attn.*']"}},
        {"train.lora", {"{rank = 0}", "{rank = 0}", "{rank = 4}"}},
        {"train.ema", {"0", "0.99"}},
        {"parallel.data", {"1", "2", "4"}},
        {"parallel.tensor", {"1", "2"}},
        {"parallel.pipeline", {"1", "2", "3"}},
        {"parallel.context", {"1", "2"}},
        {"parallel.expert", {"1", "2"}},
        {"parallel.zero", {"0", "1", "2", "3"}},
        {"parallel.shard", {"0", "2"}},
        {"parallel.reduce", {"f32", "bf16"}},
        {"parallel.bucket", {"none", "block", "greedy", "global", "1000", "20000"}},
        {"parallel.schedule", {"1f1b", "interleaved", "zb-v", "zb-h1", "gpipe"}},
        {"parallel.update", {"synchronous", "post-validated"}},
        {"parallel.reduce_every", {"auto", "microbatch", "step"}},
        {"parallel.gather_every", {"auto", "microbatch", "pass", "step"}},
        {"parallel.sequence", {"true", "false"}},
        {"parallel.tile", {"0", "4096"}}};
    int legal = 0;
    for (const soak::Budget budget; legal == 0 || budget.left();) {
        std::vector<std::string> drawn{"train.global_batch=12", "train.micro_batch=1", "train.precision=f32"};
        for (const auto& [key, values] : keys)
            drawn.push_back(str(key, "=", one_of(values)));
        try {
            RunConfig c = read_config("", drawn);
            resolve_and_validate(c);
            if (rank_count(c.parallel) > 16)
                continue;
            INFO(to_toml(c, {"model", "train", "parallel"}));
            require_no_deadlock(c);
            ++legal;
        } catch (const UserError&) { // not legal
        }
    }
}

namespace {

/// The two stages of a pipeline.
std::vector<Program> two_stages()
{
    RunConfig c = odd_config(Family::llama, {1, 2, 1}, false, 0);
    c.train.micro_batch = 6;
    std::vector<Program> train;
    compile_ranks(
        decide(c, Machine{}), {}, [](const Mesh&, i64) { return true; },
        [&](i64, Compiled& compiled) {
            train.push_back(std::move(compiled.programs[train_program]));
            return true;
        });
    return train;
}

/// The Steps of the list in a new order; those that are not in it are left out.
void reorder(Schedule& schedule, const std::vector<std::size_t>& order)
{
    std::vector<StepId> now(schedule.steps.size());
    std::vector<Step> steps;
    for (const std::size_t i : order) {
        now[i] = StepId(steps.size());
        steps.push_back(schedule.steps[i]);
    }
    for (Step& step : steps) {
        decltype(step.waits) waits;
        for (const StepId wait : step.waits)
            if (now[wait.index()])
                waits.push_back(now[wait.index()]);
        step.waits = waits;
    }
    schedule.steps = steps;
}

std::vector<std::size_t> all_of(const Schedule& schedule)
{
    std::vector<std::size_t> order(schedule.steps.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    return order;
}

/// The Steps that receive (or send).
std::vector<std::size_t> messages(const Program& program, bool receive)
{
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < program.schedule.steps.size(); ++i)
        if (const Step& step = program.schedule.steps[i]; step.kind == StepKind::op) {
            const Attributes& attrs = program.graph[step.op].attrs;
            if (receive ? attrs.from.has_value() : attrs.to.has_value())
                found.push_back(i);
        }
    return found;
}

} // namespace

TEST_CASE("a Schedule that cannot run is refused, with its Steps")
{
    const std::vector<Program> sound = two_stages();
    REQUIRE(fault_of(sound, true) == "");
    std::vector<Program> all = sound;
    SECTION("a missing receive")
    {
        std::vector<std::size_t> order = all_of(all[1].schedule);
        order.erase(order.begin() + static_cast<std::ptrdiff_t>(messages(all[1], true).back()));
        reorder(all[1].schedule, order);
        const std::string fault = fault_of(all, true);
        CHECK(has(fault, "Step " + std::to_string(messages(sound[0], false).back()) + " of rank 0 (send"));
        CHECK(has(fault, "of microbatch 3"));
    }
    SECTION("a wrong order on a communicator")
    {
        const std::vector<std::size_t> receives = messages(all[1], true);
        std::swap(all[1].schedule.steps[receives[1]].microbatch,
                  all[1].schedule.steps[receives[2]].microbatch);
        const std::string fault = fault_of(all, true);
        CHECK(has(fault, "of rank 0 (send"));
        CHECK(has(fault, "of rank 1 (recv"));
        CHECK(has(fault, "their order differs"));
    }
    SECTION("a cycle")
    {
        // Rank 0 waits for the first gradient before it sends the activations.
        std::vector<std::size_t> order = all_of(all[0].schedule);
        const std::size_t send = messages(all[0], false).front(), receive = messages(all[0], true).front();
        REQUIRE(send < receive);
        all[0].schedule.steps[receive].waits.clear();
        std::rotate(order.begin() + static_cast<std::ptrdiff_t>(send),
                    order.begin() + static_cast<std::ptrdiff_t>(receive),
                    order.begin() + static_cast<std::ptrdiff_t>(receive) + 1);
        reorder(all[0].schedule, order);
        const std::string fault = fault_of(all, false);
        CHECK(has(fault, "the ranks wait forever"));
        CHECK(has(fault, "of rank 0 (recv"));
        CHECK(has(fault, "of rank 1 (recv"));
    }
    SECTION("a buffer that would have to be one more")
    {
        // The second use of a buffer no longer waits for the message that is sent from it.
        for (Step& step : all[0].schedule.steps) {
            decltype(step.waits) waits;
            for (const StepId wait : step.waits) {
                const Step& other = sound[0].schedule.steps[wait.index()];
                if (other.kind != StepKind::op || !sound[0].graph[other.op].attrs->to)
                    waits.push_back(wait);
            }
            step.waits = waits;
        }
        const std::string fault = fault_of(all, true);
        CHECK(has(fault, " writes "));
        CHECK(has(fault, "and does not wait for Step " + std::to_string(messages(sound[0], false).front())));
    }
}
