#include "runtime/communication.hpp"

#include "base/check.hpp"
#include "mpi/collective.hpp"

#include <sstream>

namespace trivium {

namespace {

class CollectiveMove : public Communication {
public:
    explicit CollectiveMove(Collective collective) : collective_(std::move(collective)) {}
    void start(const kernels::Exec&) override { collective_.start(); }
    bool progress() override { return collective_.progress(); }
    void finish() override { collective_.finish(); }

private:
    Collective collective_;
};

class Message : public Communication {
public:
    explicit Message(std::function<std::unique_ptr<Request>()> post) : post_(std::move(post)) {}
    void start(const kernels::Exec&) override { request_ = post_(); }
    bool progress() override
    {
        if (request_ && request_->test())
            request_.reset();
        return !request_;
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

CollectiveKind kind_of(OpKind kind)
{
    return kind == OpKind::all_gather       ? CollectiveKind::all_gather
           : kind == OpKind::reduce_scatter ? CollectiveKind::reduce_scatter
                                            : CollectiveKind::all_reduce;
}

std::unique_ptr<Communication> bind_collective(const Binding& b, Comm& comm)
{
    const Graph& graph = *b.graph;
    const Op& op = *b.op;
    CollectiveShape shape;
    shape.kind = kind_of(op.kind);
    shape.type = graph[op.operands[0]].type.dtype;
    shape.combine = has_attr(op.attrs, "combine") && text_attr(op.attrs, "combine") == "lse" ? Combine::lse : Combine::sum;
    std::istringstream dims(has_attr(op.attrs, "dim") ? text_attr(op.attrs, "dim") : "");
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
        const Shape &in = graph[op.operands[i]].type.shape, &out = graph[op.results[i]].type.shape;
        Operand operand;
        operand.in = b.operands[i];
        operand.out = b.results[i];
        if (shape.kind == CollectiveKind::all_reduce) {
            operand.extent = element_count(in);
        } else {
            std::size_t dim = 0;
            TRV_CHECK(dims >> dim && dim < in.size(), "a collective without its dimension");
            for (std::size_t d = 0; d < in.size(); ++d)
                (d < dim ? operand.outer : operand.inner) *= d == dim ? 1 : in[d];
            operand.extent = shape.kind == CollectiveKind::all_gather ? out[dim] : in[dim];
        }
        shape.operands.push_back(operand);
    }
    return std::make_unique<CollectiveMove>(Collective(comm, std::move(shape), {static_cast<std::byte*>(b.scratch.data), b.scratch.size}));
}

} // namespace

std::unique_ptr<Communication> bind_communication(const Binding& b, const Grid& grid)
{
    const Op& op = *b.op;
    Comm& comm = grid.along(text_attr(op.attrs, "axis"));
    switch (op.kind) {
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
    case OpKind::all_reduce: return bind_collective(b, comm);
    case OpKind::send: {
        const ConstPiece piece{static_cast<const std::byte*>(b.operands[0]), (*b.graph)[op.operands[0]].type.bytes()};
        return std::make_unique<Message>([&comm, piece, to = static_cast<int>(int_attr(op.attrs, "to")), channel = static_cast<int>(int_attr(op.attrs, "channel"))] { return comm.send(to, channel, piece); });
    }
    case OpKind::recv: {
        const Piece piece{static_cast<std::byte*>(b.results[0]), (*b.graph)[op.results[0]].type.bytes()};
        return std::make_unique<Message>([&comm, piece, from = static_cast<int>(int_attr(op.attrs, "from")), channel = static_cast<int>(int_attr(op.attrs, "channel"))] { return comm.receive(from, channel, piece); });
    }
    default: throw InternalError(__FILE__, __LINE__, str("op '", info(op).name, "' does not communicate"));
    }
}

} // namespace trivium
