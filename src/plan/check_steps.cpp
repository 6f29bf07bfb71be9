#include "plan/check_steps.hpp"

#include "base/check.hpp"
#include "schedule/happens_before.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace trivium {

namespace {

constexpr std::size_t none = ~std::size_t{0};

class StepCheck {
public:
    StepCheck(const std::vector<StageProgram>& ranks, bool overlap) : ranks_(ranks), overlap_(overlap)
    {
        for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
            number_[ranks[rank].graph->mesh.rank(ranks[rank].graph->at)] = rank;
            State& state = states_.emplace_back();
            state.over.resize(ranks[rank].schedule->steps.size(), false);
            state.queued.resize(ranks[rank].schedule->queues.size());
            state.head.resize(ranks[rank].schedule->queues.size(), 0);
        }
    }

    std::optional<StepFault> run()
    {
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
            if (auto fault = find_race(rank))
                return fault;
        for (bool moved = true; moved && !fault_;) {
            moved = false;
            for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
                while (!fault_ && (begin_next(rank) || start_transfers(rank)))
                    moved = true;
        }
        if (!fault_)
            find_stuck();
        return fault_;
    }

private:
    struct State {
        std::size_t next = 0;       ///< in the list
        std::size_t awaited = none; ///< the transfer before whose end nothing begins
        std::vector<bool> over;
        std::vector<std::vector<std::size_t>> queued; ///< transfers by queue
        std::vector<std::size_t> head;                ///< of these, the first that has not started
        std::map<std::string, std::size_t> started;   ///< transfers by group or tag
    };
    /// One transfer, as far as it has started: the ranks and their Steps.
    using Transfer = std::vector<std::pair<std::size_t, std::size_t>>;

    const Op* op_of(std::size_t rank, std::size_t step) const
    {
        const Step& s = ranks_[rank].schedule->steps[step];
        return s.kind == StepKind::op ? &(*ranks_[rank].graph)[s.op] : nullptr;
    }
    bool is_transfer(std::size_t rank, std::size_t step) const
    {
        const Op* op = op_of(rank, step);
        return op && info(*op).communicates;
    }

    std::string text_of(std::size_t rank, std::size_t step) const
    {
        const Graph& g = *ranks_[rank].graph;
        const Step& s = ranks_[rank].schedule->steps[step];
        const Op* op = op_of(rank, step);
        std::string what = op ? std::string(info(*op).name) : s.kind == StepKind::feed ? "feed" : "fetch";
        const ValueId value = !op                     ? s.value
                              : !op->results.empty()  ? op->results[0]
                              : !op->operands.empty() ? op->operands[0]
                                                      : ValueId{};
        if (value)
            what += str(" %", g[value].name);
        if (s.microbatch >= 0)
            what += str(" of microbatch ", s.microbatch);
        return str("Step ", step, " of rank ", g.at.empty() ? 0 : g.mesh.rank(g.at), " (", what, ")");
    }

    /// The Steps of one rank that use the same buffer in turn must wait for each other.
    std::optional<StepFault> find_race(std::size_t rank) const
    {
        const Schedule& schedule = *ranks_[rank].schedule;
        const HappensBefore order(schedule);
        struct Uses {
            StepId writer;
            std::vector<StepId> readers;
        };
        std::vector<Uses> uses(schedule.buffers.size());
        for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
            const StepId id(i);
            const Step& step = schedule.steps[i];
            const auto require = [&](StepId other, BufferId buffer, const char* does,
                                     const char* did) -> std::optional<StepFault> {
                if (!other || other == id || order.before(other, id))
                    return {};
                return StepFault{rank, id,
                                 str(text_of(rank, i), " ", does, " ", schedule[buffer].name,
                                     " and does not wait for ", text_of(rank, other.index()), ", which ", did,
                                     " it")};
            };
            for (const BufferId buffer : step.operands)
                if (auto fault = require(uses[buffer.index()].writer, buffer, "reads", "writes"))
                    return fault;
            for (const BufferId buffer : step.results) {
                if (auto fault = require(uses[buffer.index()].writer, buffer, "writes", "writes"))
                    return fault;
                for (const StepId reader : uses[buffer.index()].readers)
                    if (auto fault = require(reader, buffer, "writes", "reads"))
                        return fault;
            }
            for (const BufferId buffer : step.operands)
                uses[buffer.index()].readers.push_back(id);
            for (const BufferId buffer : step.results)
                uses[buffer.index()] = {id, {}};
        }
        return {};
    }

    /// Begins the next Step of the list.
    bool begin_next(std::size_t rank)
    {
        State& state = states_[rank];
        if (state.next == state.over.size() || (state.awaited != none && !state.over[state.awaited]))
            return false;
        const Step& step = ranks_[rank].schedule->steps[state.next];
        for (const StepId wait : step.waits)
            if (!state.over[wait.index()])
                return false;
        if (is_transfer(rank, state.next)) {
            state.queued[static_cast<std::size_t>(step.queue)].push_back(state.next);
            if (!overlap_ && !step.results.empty())
                state.awaited = state.next;
        } else {
            state.over[state.next] = true;
        }
        ++state.next;
        return true;
    }

    bool start_transfers(std::size_t rank)
    {
        State& state = states_[rank];
        bool started = false;
        for (std::size_t q = 0; q < state.queued.size() && !fault_; ++q) {
            const std::size_t head = state.head[q];
            if (head == state.queued[q].size() || (head > 0 && !state.over[state.queued[q][head - 1]]))
                continue;
            ++state.head[q];
            start(rank, state.queued[q][head]);
            started = true;
        }
        return started;
    }

    struct Group {
        std::vector<std::size_t> members; ///< that are checked
        std::string name;                 ///< that they share
    };
    /// The ranks that take part in a transfer.
    const Group& group_of(std::size_t rank, const Op& op) const
    {
        const Graph& g = *ranks_[rank].graph;
        const auto [known, added] = groups_.try_emplace(&op);
        if (!added)
            return known->second;
        const std::string axis = *op.attrs->axis;
        std::vector<i64> members;
        std::string name = axis;
        if (op.attrs->tag) {
            Coordinates there = g.at;
            there[static_cast<std::size_t>(g.mesh.find(axis))] =
                op.attrs->to ? *op.attrs->to : *op.attrs->from;
            members = {g.mesh.rank(g.at), g.mesh.rank(there)};
            if (op.attrs->from)
                std::swap(members[0], members[1]);
            name += str(" #", *op.attrs->tag);
        } else {
            members = g.mesh.group(g.at, axes_of_group(g.mesh, axis));
        }
        std::vector<std::size_t> present;
        for (const i64 member : members) {
            name += str(" ", member);
            if (const auto known = number_.find(member); known != number_.end())
                present.push_back(known->second);
        }
        return known->second = {std::move(present), std::move(name)};
    }

    void start(std::size_t rank, std::size_t step)
    {
        const Op& op = *op_of(rank, step);
        const auto& [members, name] = group_of(rank, op);
        Transfer& transfer = transfers_[{name, states_[rank].started[name]++}];
        if (!transfer.empty()) {
            const auto [other, others] = transfer.front();
            const Op& theirs = *op_of(other, others);
            const i64 mine = ranks_[rank].schedule->steps[step].microbatch,
                      other_microbatch = ranks_[other].schedule->steps[others].microbatch;
            const bool alike = op.attrs->tag ? op.attrs->to.has_value() != theirs.attrs->to.has_value()
                                             : op.kind == theirs.kind;
            if (!alike || mine != other_microbatch) {
                fault_ = StepFault{rank, StepId(step),
                                   str(text_of(rank, step), " meets ", text_of(other, others), " on ",
                                       ranks_[rank].schedule->queues[static_cast<std::size_t>(
                                           ranks_[rank].schedule->steps[step].queue)],
                                       ": their order differs")};
                return;
            }
        }
        transfer.emplace_back(rank, step);
        if (transfer.size() == members.size())
            for (const auto& [r, s] : transfer)
                states_[r].over[s] = true;
    }

    /// What keeps a rank from going on: a Step, and the rank and Step for which that waits.
    struct Block {
        std::size_t step = none, other = none, other_step = none;
    };
    Block block_of(std::size_t rank) const
    {
        const State& state = states_[rank];
        const Schedule& schedule = *ranks_[rank].schedule;
        std::size_t at = none; // a transfer that does not end
        const auto look = [&](std::size_t step) {
            if (at == none && step != none && !state.over[step])
                at = step;
        };
        look(state.awaited);
        if (state.next < state.over.size())
            for (const StepId wait : schedule.steps[state.next].waits)
                look(wait.index());
        for (std::size_t q = 0; q < state.queued.size(); ++q)
            if (state.head[q] > 0)
                look(state.queued[q][state.head[q] - 1]);
        if (at == none)
            return {};
        const auto queue = static_cast<std::size_t>(schedule.steps[at].queue);
        const std::size_t head = state.queued[queue][state.head[queue] - 1]; // those behind it wait for it
        const auto& [members, name] = group_of(rank, *op_of(rank, head));
        const std::size_t turn = states_[rank].started.at(name) - 1;
        for (const std::size_t member : members) {
            const auto count = states_[member].started.find(name);
            if (count == states_[member].started.end() || count->second <= turn) {
                const State& theirs = states_[member];
                return {head, member, std::min(theirs.next, theirs.over.size())};
            }
        }
        return {head, rank, head};
    }

    void find_stuck()
    {
        std::size_t rank = 0;
        const auto stuck = [&](std::size_t r) {
            return std::find(states_[r].over.begin(), states_[r].over.end(), false) != states_[r].over.end();
        };
        while (rank < ranks_.size() && !stuck(rank))
            ++rank;
        if (rank == ranks_.size())
            return;
        std::vector<std::size_t> path;
        std::string text;
        const std::size_t first = rank;
        const Block begin = block_of(first);
        while (std::find(path.begin(), path.end(), rank) == path.end()) {
            path.push_back(rank);
            const Block block = block_of(rank);
            if (block.step == none)
                break;
            text += text.empty() ? "" : "; ";
            if (block.other_step == states_[block.other].over.size()) {
                text += str(text_of(rank, block.step), " has no counterpart: the other rank has ended");
                break;
            }
            text += str(text_of(rank, block.step), " waits for a rank that has come to ",
                        text_of(block.other, block.other_step));
            rank = block.other;
        }
        fault_ = StepFault{first, StepId(begin.step == none ? states_[first].next : begin.step),
                           "the ranks wait forever: " + text};
    }

    const std::vector<StageProgram>& ranks_;
    mutable std::unordered_map<const Op*, Group> groups_; ///< group_of() each op
    bool overlap_;
    std::map<i64, std::size_t> number_; ///< of a rank of the mesh: its place in the list
    std::vector<State> states_;
    std::map<std::pair<std::string, std::size_t>, Transfer> transfers_;
    std::optional<StepFault> fault_;
};

} // namespace

std::optional<StepFault> find_fault(const std::vector<StageProgram>& ranks, bool overlap)
{
    return StepCheck(ranks, overlap).run();
}

} // namespace trivium
