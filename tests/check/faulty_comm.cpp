#include "faulty_comm.hpp"

#include "kernels/runtime.hpp"
#include "runtime/communication.hpp"

#include <algorithm>
#include <utility>

namespace trivium::faults {

namespace {

class FaultyRequest final : public Request {
public:
    FaultyRequest(std::unique_ptr<Request> inner, std::function<void()> then)
        : inner_(std::move(inner)), then_(std::move(then))
    {
    }
    bool test() override
    {
        if (!inner_->test())
            return false;
        wait();
        return true;
    }
    void wait() override
    {
        inner_->wait();
        if (const std::function<void()> then = std::exchange(then_, {}))
            then();
    }

private:
    std::unique_ptr<Request> inner_;
    std::function<void()> then_;
};

class FaultyComm final : public Comm {
public:
    FaultyComm(Comm& inner, CommFaults& faults, std::string axis, std::unique_ptr<Comm> owned = nullptr)
        : Comm(inner.rank(), inner.world_ranks()), owned_(std::move(owned)), inner_(inner), faults_(faults),
          axis_(std::move(axis))
    {
    }

    std::unique_ptr<Request> exchange(std::span<const ConstPiece> sends, std::span<const Piece> receives,
                                      int tag) override
    {
        std::unique_ptr<Request> request = inner_.exchange(sends, receives, tag);
        if (tag > 0 && tag == static_cast<int>(started_ % (exchange_tags - 1)) +
                                  1) // the next collective takes the next tag
            turn_of_tag_[tag] = started_++;
        if (tag == 0 || !faults_.exchanged)
            return request;
        return std::make_unique<FaultyRequest>(
            std::move(request), [this, turn = turn_of_tag_.at(tag),
                                 pieces = std::vector<Piece>(receives.begin(), receives.end())] {
                faults_.exchanged(axis_, turn, pieces);
            });
    }
    std::unique_ptr<Request> send(int to, int tag, ConstPiece piece) override
    {
        return inner_.send(to, tag, piece);
    }
    std::unique_ptr<Request> receive(int from, int tag, Piece piece) override
    {
        std::unique_ptr<Request> request = inner_.receive(from, tag, piece);
        if (!faults_.received)
            return request;
        return std::make_unique<FaultyRequest>(std::move(request),
                                               [=, this] { faults_.received(axis_, from, tag, piece); });
    }
    std::unique_ptr<Comm> subgroup(const std::vector<int>& members) override
    {
        std::unique_ptr<Comm> group = inner_.subgroup(members);
        Comm& inner = *group;
        return std::make_unique<FaultyComm>(inner, faults_, axis_ == "all" ? "world" : axis_of(members),
                                            std::move(group));
    }

private:
    std::string axis_of(const std::vector<int>& members) const
    {
        for (const MeshAxis& axis : faults_.mesh.axes) {
            const std::vector<i64> group = faults_.mesh.group(faults_.mesh.coordinates(rank()), {axis.name});
            if (axis.size > 1 && std::equal(group.begin(), group.end(), members.begin(), members.end()))
                return axis.name;
        }
        return "";
    }

    std::unique_ptr<Comm> owned_;
    Comm& inner_;
    CommFaults& faults_;
    std::string axis_;
    i64 started_ = 0;
    std::map<int, i64> turn_of_tag_;
};

} // namespace

std::unique_ptr<Comm> make_faulty_comm(Comm& inner, CommFaults& faults)
{
    return std::make_unique<FaultyComm>(inner, faults, "all");
}

CheckReport check_on_threads(int ranks, const std::function<void(Rank&)>& prepare)
{
    static const kernels::Runtime runtime(1);
    CheckReport report;
    run_on_threads(ranks, [&](Comm& world) {
        Rank me;
        me.rank = world.rank();
        me.facts = {str("n", world.rank() / 2),
                    "a processor",
                    "a build",
                    "libmpi.so.40 1\n",
                    std::to_string(world.rank() % 2),
                    1,
                    0};
        prepare(me);
        // Groups get their names from the mesh of the next training.
        me.config.hooks.compiled = [&me, then = me.config.hooks.compiled](const RunConfig& config,
                                                                          Compiled& compiled) {
            me.faults.mesh = mesh_of(config.parallel);
            if (then)
                then(config, compiled);
        };
        const std::unique_ptr<Comm> faulty = make_faulty_comm(world, me.faults);
        CheckReport mine = run_check(*faulty, me.config, me.facts);
        if (world.rank() == 0)
            report = std::move(mine);
    });
    return report;
}

std::vector<const Op*> collectives_of(const Program& program, const std::string& axis)
{
    std::vector<const Op*> all;
    for (const Step& step : program.schedule.steps)
        if (step.kind == StepKind::op && is_collective(program.graph[step.op]) &&
            *program.graph[step.op].attrs->axis == axis)
            all.push_back(&program.graph[step.op]);
    return all;
}

} // namespace trivium::faults
