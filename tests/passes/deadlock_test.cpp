// Simulates the Steps of all ranks of a grid without data: does every rank finish?
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/builder.hpp"
#include "small_run.hpp"

#include <algorithm>
#include <map>
#include <tuple>

using namespace trivium;

namespace {

/// The worst case of execution: Steps begin in the order of the list, each when its waits have ended and its
/// queue is free; a transfer ends when all participants have begun it. Without `overlap`, a rank begins
/// nothing before its transfer ends, unless that is a send.
class Ranks {
public:
    Ranks(const std::vector<Program>& programs, bool overlap) : programs_(programs), overlap_(overlap)
    {
        for (std::size_t rank = 0; rank < programs.size(); ++rank) {
            states_.emplace_back();
            states_.back().over.resize(programs[rank].schedule.steps.size(), false);
            states_.back().last.resize(programs[rank].schedule.queues.size(), none);
        }
    }

    /// Steps that never begin, over all ranks.
    std::size_t stuck()
    {
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t rank = 0; rank < programs_.size(); ++rank)
                while (advance(rank))
                    moved = true;
        }
        std::size_t left = 0;
        for (const State& state : states_)
            left += state.over.size() - state.next;
        return left;
    }

private:
    static constexpr std::size_t none = ~std::size_t{0};

    struct State {
        std::size_t next = 0, awaited = none;
        std::vector<bool> over;
        std::vector<std::size_t> last;    ///< by queue: the Step that began last
        std::map<std::string, int> begun; ///< by group or tag
    };

    bool is_over(const State& state, std::size_t step) const { return step == none || state.over[step]; }

    bool advance(std::size_t rank)
    {
        State& state = states_[rank];
        const Program& program = programs_[rank];
        if (state.next == state.over.size() || !is_over(state, state.awaited))
            return false;
        const Step& step = program.schedule.steps[state.next];
        for (const StepId wait : step.waits)
            if (!state.over[wait.index()])
                return false;
        std::size_t& last = state.last[static_cast<std::size_t>(step.queue)];
        if (!is_over(state, last))
            return false;
        last = state.next++;
        if (step.kind == StepKind::op && info(program.graph[step.op]).communicates)
            begin(rank, last, program.graph, program.graph[step.op]);
        else
            state.over[last] = true;
        return true;
    }

    void begin(std::size_t rank, std::size_t step, const Graph& g, const Op& op)
    {
        const std::string axis = *op.attrs.axis;
        std::vector<i64> members;
        std::string name = axis;
        if (op.attrs.to.has_value() || op.attrs.from.has_value()) {
            const bool sends = op.attrs.to.has_value();
            Coordinates there = g.at;
            there[static_cast<std::size_t>(g.mesh.find(axis))] = sends ? *op.attrs.to : *op.attrs.from;
            members = {g.mesh.rank(g.at), g.mesh.rank(there)};
            if (!sends)
                std::swap(members[0], members[1]);
            name += str(" #", *op.attrs.tag);
        } else {
            std::vector<std::string> along{axis};
            if (axis == "world")
                for (along = {}; const MeshAxis& each : g.mesh.axes)
                    along.push_back(each.name);
            members = g.mesh.group(g.at, along);
        }
        for (const i64 member : members)
            name += str(" ", member);
        auto& taking_part = moves_[{name, states_[rank].begun[name]++}];
        taking_part.emplace_back(rank, step);
        if (taking_part.size() == members.size())
            for (const auto& [r, s] : taking_part)
                states_[r].over[s] = true;
        else if (!overlap_ && !op.results.empty())
            states_[rank].awaited = step;
    }

    const std::vector<Program>& programs_;
    bool overlap_;
    std::vector<State> states_;
    std::map<std::pair<std::string, int>, std::vector<std::pair<std::size_t, std::size_t>>> moves_;
};

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
    CHECK(Ranks(programs(true), true).stuck() == 0);
    CHECK(Ranks(programs(true), false).stuck() == 0);
    CHECK(Ranks(programs(false), true).stuck() == 0); // each axis has its own queue
    CHECK(Ranks(programs(false), false).stuck() > 0);
}

TEST_CASE("no ranks of a grid wait for each other forever, with or without overlap")
{
    int cases = 0;
    for (const Grid& grid :
         {Grid{2, 2, 2, 1}, {1, 4, 1}, {2, 3, 2, 0, false}, {1, 2, 3}, {4, 1, 2, 1}, {2, 4, 1, 1}})
        for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe})
            for (const bool tied : {false, true}) {
                if (contracts_on && tied == (kind == ScheduleKind::gpipe)) { // sanitizers take their time
                    ++cases;
                    continue;
                }
                const Family family = cases % 2 ? Family::gpt2 : Family::llama;
                RunConfig c = odd_config(family, grid, tied, cases % 3);
                c.train.micro_batch = 24 / grid.data / 6;
                c.parallel.schedule = name_of(kind);
                c.parallel.bucket = cases % 4 == 0 ? "none" : cases % 4 == 1 ? "block" : "auto";
                INFO("data " << grid.data << " pipeline " << grid.pipeline << " tensor " << grid.tensor
                             << " tied " << tied);
                for (const bool overlap : {true, false}) {
                    c.parallel.overlap = overlap;
                    std::vector<Program> train, eval;
                    compile_ranks(
                        c, {}, [](const Mesh&, i64) { return true; },
                        [&](i64, Compiled& compiled) {
                            train.push_back(std::move(compiled.programs[train_program]));
                            eval.push_back(std::move(compiled.programs[eval_program]));
                        });
                    CHECK(Ranks(train, overlap).stuck() == 0);
                    CHECK(Ranks(eval, overlap).stuck() == 0);
                }
                ++cases;
            }
    CHECK(cases == 24);
}
