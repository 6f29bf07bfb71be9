#include "mpi/row_exchange.hpp"

#include "mpi/combine.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace trivium {

namespace {

/// Throws UserError unless each group has places for its rows, and each rank for those that arrive.
void check_counts(const RowExchangeShape& shape, const ExpertRows& rows)
{
    for (i64 g = 0; g < rows.groups(); ++g) {
        i64 sum = 0;
        for (i64 e = 0; e < rows.experts(); ++e) {
            if (rows.count(g, e) < 0)
                throw UserError({shape.place,
                                 str("group ", g, " has ", rows.count(g, e), " rows for expert ", e),
                                 "a count cannot be negative", "use the counts of `dispatch`"});
            sum += rows.count(g, e);
        }
        if (sum > shape.sent)
            throw UserError({shape.place,
                             str("the counts of group ", g, " add up to ", sum, " rows, it has ", shape.sent),
                             "", "use the counts of the `dispatch` that made the rows"});
    }
    for (i64 rank = 0; !shape.drops && rank < rows.groups(); ++rank)
        if (const i64 arrive = rows.arriving(rank); arrive > shape.received)
            throw UserError(
                {shape.place,
                 str("expert rank ", rank, ": ", arrive, " rows arrive, its buffer has ", shape.received),
                 "the router sends it more tokens than parallel.expert_buffer foresees",
                 "raise parallel.expert_buffer, or set parallel.expert_overflow = \"drop\""});
}

} // namespace

RowMoves row_moves(const RowExchangeShape& shape, std::span<const i32> counts, int members, int member,
                   const void* in, void* out)
{
    TRV_CHECK(shape.groups % members == 0 && shape.experts % shape.groups == 0 &&
                  static_cast<i64>(counts.size()) == shape.counts(),
              shape.groups, " groups with ", shape.experts, " experts among ", members, " ranks");
    const i64 own_groups = shape.groups / members, own_experts = shape.experts / members;
    const auto in_rows = shape.backwards ? shape.received : shape.sent,
               out_rows = shape.backwards ? shape.sent : shape.received;
    const auto rounds = static_cast<std::size_t>(shape.blocks * own_groups * own_experts);
    const auto peers = static_cast<std::size_t>(members);
    RowMoves moves;
    if (members > 1) {
        moves.sends.assign(rounds, std::vector<ConstPiece>(peers));
        moves.receives.assign(rounds, std::vector<Piece>(peers));
    }
    const auto* from = static_cast<const std::byte*>(in);
    auto* to = static_cast<std::byte*>(out);
    for (i64 block = 0; block < shape.blocks; ++block) {
        const ExpertRows rows(counts.subspan(static_cast<std::size_t>(block * shape.groups * shape.experts),
                                             static_cast<std::size_t>(shape.groups * shape.experts)),
                              shape.groups, shape.received);
        check_counts(shape, rows);
        // The buffers of a member's group in this block.
        const auto in_at = [&](i64 group, i64 row) {
            return from + ((block * own_groups + group % own_groups) * in_rows + row) * shape.row;
        };
        const auto out_at = [&](i64 group, i64 row) {
            return to + ((block * own_groups + group % own_groups) * out_rows + row) * shape.row;
        };
        std::vector<i64> filled(static_cast<std::size_t>(shape.groups), 0); // rows of `out` so far
        const auto zero = [&](i64 group, i64 begin, i64 end) {
            if (end > begin && group / own_groups == member)
                moves.zero.push_back({out_at(group, begin), (end - begin) * shape.row});
        };
        rows.each([&](const ExpertRows::Part& part) {
            const i64 rank = part.expert / rows.experts_of_rank(); // of the experts, as a group
            const i64 tokens = part.group / own_groups, experts = rank / own_groups; // members
            const i64 source = shape.backwards ? rank : part.group,
                      target = shape.backwards ? part.group : rank;
            const i64 first = shape.backwards ? part.received : part.sent,
                      place = shape.backwards ? part.sent : part.received;
            filled[static_cast<std::size_t>(target)] = place + (shape.backwards ? part.size : part.kept);
            if (shape.backwards)
                zero(target, place + part.kept, place + part.size);
            const Bytes bytes = part.kept * shape.row;
            if (tokens == member && experts == member) {
                if (bytes > 0)
                    moves.keep.push_back({out_at(target, place), in_at(source, first), bytes});
                return;
            }
            // Both sides count the messages between two members alike.
            const auto round = static_cast<std::size_t>(
                (block * own_experts + part.expert % own_experts) * own_groups + part.group % own_groups);
            if (source / own_groups == member)
                moves.sends[round][static_cast<std::size_t>(target / own_groups)] = {in_at(source, first),
                                                                                     bytes};
            if (target / own_groups == member)
                moves.receives[round][static_cast<std::size_t>(source / own_groups)] = {out_at(target, place),
                                                                                        bytes};
        });
        for (i64 g = 0; g < shape.groups; ++g)
            zero(g, filled[static_cast<std::size_t>(g)], out_rows);
    }
    return moves;
}

void RowExchange::start()
{
    TRV_CHECK(pending_.empty(), "an exchange of rows is started that is still running");
    const RowMoves moves = row_moves(shape_, {counts_, static_cast<std::size_t>(shape_.counts())},
                                     comm_->size(), comm_->rank(), in_, out_);
    // Exchanges with one tag match in their order.
    const int tag = comm_->size() > 1 ? comm_->take_tag() : 0;
    for (std::size_t i = 0; i < moves.sends.size(); ++i)
        pending_.push_back(comm_->exchange(moves.sends[i], moves.receives[i], tag));
    copy_blocks(moves.keep);
    for (const Piece& piece : moves.zero)
        std::memset(piece.data, 0, static_cast<std::size_t>(piece.bytes));
}

bool RowExchange::progress()
{
    std::erase_if(pending_, [](const std::unique_ptr<Request>& request) { return request->test(); });
    return pending_.empty();
}

std::vector<int> RowExchange::waits_for() const
{
    return pending_.empty() ? std::vector<int>{} : pending_.front()->waits_for();
}

void RowExchange::finish()
{
    for (const std::unique_ptr<Request>& request : pending_)
        request->wait();
    pending_.clear();
}

} // namespace trivium
