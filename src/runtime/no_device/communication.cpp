// Communication of a build that computes on the host.
#include "runtime/communication.hpp"

#include "base/check.hpp"

namespace trivium {

namespace {

/// A collective, or an exchange of boxes or rows.
template <class Transfer>
class GroupMove : public Communication {
public:
    explicit GroupMove(Transfer transfer) : transfer_(std::move(transfer)) {}
    void start(const kernels::Exec&) override { transfer_.start(); }
    bool progress() override { return transfer_.progress(); }
    std::vector<int> waits_for() const override { return transfer_.waits_for(); }
    void finish() override { transfer_.finish(); }

private:
    Transfer transfer_;
};

class MessageMove : public Communication {
public:
    explicit MessageMove(std::function<std::unique_ptr<Request>()> post) : post_(std::move(post)) {}
    void start(const kernels::Exec&) override { request_ = post_(); }
    bool progress() override
    {
        if (request_ && request_->test())
            request_.reset();
        return !request_;
    }
    std::vector<int> waits_for() const override
    {
        return request_ ? request_->waits_for() : std::vector<int>{};
    }
    void finish() override
    {
        if (request_)
            request_->wait();
        request_.reset();
    }

private:
    std::function<std::unique_ptr<Request>()> post_;
    std::unique_ptr<Request> request_;
};

} // namespace

void open_devices(Grid&) {}
void open_links(const Graph&, const Grid&) {}
void connect_devices(const Grid&) {}
void check_devices(const Grid&) {}
void abandon_devices(const Grid&) {}

std::unique_ptr<Communication> bind_communication(const Binding& b, const Grid& grid, bool)
{
    Comm& comm = grid.along(*b.op->attrs->axis);
    if (is_collective(*b.op))
        return std::make_unique<GroupMove<Collective>>(
            Collective(comm, collective_shape(b), exchange_scratch(b)));
    if (info(*b.op).exchanges)
        return std::make_unique<GroupMove<BoxExchange>>(box_exchange(b, comm));
    if (b.op->kind == OpKind::exchange_rows)
        return std::make_unique<GroupMove<RowExchange>>(
            RowExchange(comm, row_exchange_shape(b), b.operands[0], static_cast<const i32*>(b.operands[1]),
                        b.results[0]));
    return std::make_unique<MessageMove>([&comm, m = message_of(b)] {
        return m.sends ? comm.send(m.peer, m.tag, m.piece) : comm.receive(m.peer, m.tag, m.piece);
    });
}

} // namespace trivium
