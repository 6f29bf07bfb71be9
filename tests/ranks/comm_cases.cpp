#include "comm_suite.hpp"
#include "mpi/grid.hpp"
#include "mpi/records.hpp"

#include <algorithm>
#include <new>
#include <numeric>
#include <thread>

using namespace trivium;

namespace {

using Data = std::vector<std::byte>;

/// The piece from rank `from` to rank `to`: size and bytes depend on both.
Data parcel(int from, int to, std::size_t scale)
{
    Data data(scale * static_cast<std::size_t>((from * 7 + to * 3) % 5)); // none for some
    for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(from * 11 + to));
    return data;
}

struct Parcels {
    std::vector<Data> out, in, expected;
    std::vector<ConstPiece> sends;
    std::vector<Piece> receives;

    Parcels(const Comm& comm, std::size_t scale)
    {
        for (int r = 0; r < comm.size(); ++r) {
            out.push_back(parcel(comm.rank(), r, scale));
            expected.push_back(parcel(r, comm.rank(), scale));
            in.emplace_back(expected.back().size());
        }
        for (std::size_t r = 0; r < out.size(); ++r) {
            sends.push_back({out[r].data(), static_cast<Bytes>(out[r].size())});
            receives.push_back({in[r].data(), static_cast<Bytes>(in[r].size())});
        }
    }
};

void exchanges(Comm& comm)
{
    for (const std::size_t scale : {1, 1000, 300000}) {
        Parcels parcels(comm, scale);
        comm.exchange(parcels.sends, parcels.receives)->wait();
        TRV_CHECK(parcels.in == parcels.expected, "pieces of up to ", 4 * scale, " bytes");
    }
}

/// Tags do not mix, and transfers with one tag keep the order of their starts.
void exchanges_under_way(Comm& comm)
{
    std::vector<Parcels> parcels;
    for (const std::size_t scale : {3, 500, 20000, 2, 100})
        parcels.emplace_back(comm, scale);
    std::vector<std::unique_ptr<Request>> requests(parcels.size());
    const auto start = [&](std::size_t i, int lane) {
        requests[i] = comm.exchange(parcels[i].sends, parcels[i].receives, lane);
    };
    // The first three with tags that each rank starts in another order.
    for (int i = 0; i < 3; ++i) {
        const int which = (i + comm.rank()) % 3;
        start(static_cast<std::size_t>(which), 5 + which);
    }
    start(3, 0);
    start(4, 0);
    for (std::size_t i = requests.size(); i-- > 0;)
        requests[i]->wait();
    for (const Parcels& each : parcels)
        TRV_CHECK(each.in == each.expected, "exchanges under way at once");
}

void messages_between_neighbours(Comm& comm)
{
    const int next = (comm.rank() + 1) % comm.size(),
              previous = (comm.rank() + comm.size() - 1) % comm.size();
    constexpr std::size_t large = 200000; // above MPI's eager limit
    const auto text = [&](int from, int direction, int tag) {
        std::vector<int> words(large);
        std::iota(words.begin(), words.end(), from * 1000 + direction * 100 + tag);
        return words;
    };
    const std::vector<int> tags{7, 0, 1022};
    std::vector<std::vector<int>> out, in(2 * tags.size(), std::vector<int>(large));
    std::vector<std::unique_ptr<Request>> requests;
    const auto bytes = static_cast<Bytes>(large * sizeof(int));
    for (const int tag : tags)
        for (const int direction : {0, 1})
            out.push_back(text(comm.rank(), direction, tag));
    std::size_t at = 0;
    for (const int tag : tags)
        for (const int direction : {0, 1})
            requests.push_back(comm.send(direction ? previous : next, tag + direction,
                                         {reinterpret_cast<std::byte*>(out[at++].data()), bytes}));
    Parcels parcels(comm, 5000);
    requests.push_back(comm.exchange(parcels.sends, parcels.receives));
    for (std::size_t i = tags.size(); i-- > 0;) // tags in another order than they were sent on
        for (const int direction : {1, 0})
            requests.push_back(
                comm.receive(direction ? next : previous, tags[i] + direction,
                             {reinterpret_cast<std::byte*>(in[2 * i + direction].data()), bytes}));
    bool over = false;
    while (!over) {
        std::this_thread::yield();
        over = true;
        for (const auto& request : requests)
            over = request->test() && over;
    }
    for (std::size_t i = 0; i < tags.size(); ++i)
        for (const int direction : {0, 1})
            TRV_CHECK(in[2 * i + direction] == text(direction ? next : previous, direction, tags[i]), "tag ",
                      tags[i]);
    TRV_CHECK(parcels.in == parcels.expected, "an exchange between messages");
}

void messages_stay_in_order(Comm& comm)
{
    const int next = (comm.rank() + 1) % comm.size(),
              previous = (comm.rank() + comm.size() - 1) % comm.size();
    constexpr int count = 50;
    std::vector<int> out(count), in(count, -1);
    std::vector<std::unique_ptr<Request>> requests;
    for (int i = 0; i < count; ++i) {
        out[i] = comm.rank() * 100 + i;
        requests.push_back(comm.send(next, 3, {reinterpret_cast<std::byte*>(&out[i]), sizeof(int)}));
    }
    for (int i = 0; i < count; ++i)
        comm.receive(previous, 3, {reinterpret_cast<std::byte*>(&in[i]), sizeof(int)})->wait();
    for (const auto& request : requests)
        request->wait();
    for (int i = 0; i < count; ++i)
        TRV_CHECK(in[i] == previous * 100 + i, "message ", i, " of a tag");
}

void subgroups(Comm& comm)
{
    std::vector<int> alike, mask_of;
    for (int r = comm.rank() % 2; r < comm.size(); r += 2)
        alike.push_back(r);
    const std::unique_ptr<Comm> group = comm.subgroup(alike);
    TRV_CHECK(group->size() == static_cast<int>(alike.size()) && alike[group->rank()] == comm.rank(),
              "a group's ranks");
    TRV_CHECK(group->world_ranks() == alike, "a group's ranks in the world");
    exchanges(*group);
    exchanges_under_way(*group);
    messages_between_neighbours(*group);
    u64 members = 0;
    for (const int r : alike)
        members |= u64{1} << r;
    TRV_CHECK(agree(*group, u64{1} << comm.rank()) == members, "groups agree apart from each other");

    // Within a group: the first member and the others.
    std::vector<int> part;
    for (int r = group->rank() == 0 ? 0 : 1; r < (group->rank() == 0 ? 1 : group->size()); ++r)
        part.push_back(r);
    const std::unique_ptr<Comm> inner = group->subgroup(part);
    for (std::size_t i = 0; i < part.size(); ++i)
        TRV_CHECK(inner->world_ranks()[i] == alike[static_cast<std::size_t>(part[i])],
                  "a group's group in the world");
    exchanges(*inner);
    exchanges(comm);
}

void agreement(Comm& comm)
{
    const std::vector<std::string> texts = gather_texts(
        comm, std::string(static_cast<std::size_t>(comm.rank() * 5000), 'x') + std::to_string(comm.rank()));
    for (int r = 0; r < comm.size(); ++r)
        TRV_CHECK(texts.at(static_cast<std::size_t>(r)) ==
                      std::string(static_cast<std::size_t>(r * 5000), 'x') + std::to_string(r),
                  "text of rank ", r);
    TRV_CHECK(gather_to_first(comm, std::to_string(comm.rank())).size() ==
                  (comm.rank() == 0 ? static_cast<std::size_t>(comm.size()) : 0),
              "texts on rank 0 alone");
    TRV_CHECK(gather_records(comm, ~static_cast<u64>(comm.rank())).back() ==
                  ~static_cast<u64>(comm.size() - 1),
              "number of the last rank");
    for (const std::size_t length : {0, 1, 100'000})
        TRV_CHECK(share_text(comm, std::string(comm.rank() == 0 ? length : 7, 'a')) ==
                      std::string(length, 'a'),
                  "text of rank 0");
    Agreement first(comm, comm.rank() == 0 ? 1 : 0); // two at once, other transfers in between
    Agreement second(comm, 2);
    exchanges(comm);
    TRV_CHECK(second.wait() == 2 && first.wait() == 1, "two agreements at once");
    TRV_CHECK(agree(comm, 0) == 0, "nobody sets a bit");
    TRV_CHECK(agree(comm, u64{1} << (63 - comm.rank())) == ~u64{0} << (64 - comm.size()), "each sets a bit");
}

template <class Kind, class Throw>
void fails_alike(Comm& comm, int first, int status, const std::string& text, Throw failure)
{
    first = std::min(first, comm.size() - 1);
    try {
        succeed_together(comm, [&] {
            if (comm.rank() >= first)
                failure(comm.rank());
        });
    } catch (const Kind& error) {
        // An error of all ranks names no rank.
        const std::string begin = first > 0 ? str("rank ",
                                                  comm.world_ranks()[static_cast<std::size_t>(first)], ": ")
                                            : "",
                          what = error.what();
        TRV_CHECK(what.starts_with(begin) && (first > 0 || !what.starts_with("rank ")) &&
                      what.find(text) != std::string::npos,
                  "the message is ", what);
        TRV_CHECK(error.exit_status() == status, "status ", error.exit_status());
        const auto* agreed = dynamic_cast<const Agreed*>(&static_cast<const Error&>(error));
        TRV_CHECK(agreed && agreed->members() == comm.size(), "not marked as agreed");
        return;
    }
    TRV_CHECK(false, "no error of rank ", first);
}

void success_together(Comm& comm)
{
    int runs = 0;
    succeed_together(comm, [&] { ++runs; });
    TRV_CHECK(runs == 1, "runs");
    fails_alike<UserError>(comm, 1, 2,
                           "run.toml: no\n  reason: of rank " + std::to_string(std::min(1, comm.size() - 1)),
                           [](int rank) {
                               throw UserError({"run.toml", "no", str("of rank ", rank), "mend"});
                           });
    fails_alike<IoError>(comm, 2, 1, "disk: full", [](int) { throw IoError({"disk", "full", "", ""}); });
    fails_alike<InternalError>(comm, 0, 1, "'false' is false: 42", [](int) { TRV_CHECK(false, 42); });
    fails_alike<Error>(comm, 1, 75, "stopped", [](int) { throw Error("stopped", 75); });
    fails_alike<IoError>(comm, 1, 1, "out of memory", [](int) { throw std::bad_alloc(); });
    fails_alike<InternalError>(comm, 1, 1, "odd", [](int) { throw std::runtime_error("odd"); });
    std::vector<int> upper;
    for (int r = comm.rank() == 0 ? 0 : 1; r < (comm.rank() == 0 ? 1 : comm.size()); ++r)
        upper.push_back(r);
    const std::unique_ptr<Comm> group = comm.subgroup(upper);
    fails_alike<UserError>(*group, 1, 2, "run.toml: no", [](int) {
        throw UserError({"run.toml", "no", "", ""});
    });
    succeed_together(comm, [&] { ++runs; }); // everything continues
}

void grids(Comm& comm)
{
    const i64 size = comm.size();
    for (i64 data = 1; data <= size; ++data)
        for (i64 tensor = 1; data * tensor <= size; ++tensor) {
            if (size % (data * tensor) != 0)
                continue;
            const Mesh mesh{{{"data", data}, {"pipeline", size / (data * tensor)}, {"tensor", tensor}}};
            const Grid grid(comm, mesh, str("n", comm.rank() / 2));
            TRV_CHECK(grid.at() == mesh.coordinates(comm.rank()), "coordinates");
            TRV_CHECK(&grid.world() == &comm, "the world");
            TRV_CHECK(grid.nodes() == (size + 1) / 2, grid.nodes(), " nodes");
            TRV_CHECK(grid.local_ranks() == (comm.rank() / 2 * 2 + 1 < size ? 2 : 1), grid.local_ranks(),
                      " local ranks");
            TRV_CHECK(grid.crosses_nodes("tensor") == (tensor > 2 || (tensor == 2 && size % 2 != 0)),
                      "tensor crosses nodes");
            TRV_CHECK(grid.crosses_nodes("data") == (data > 1 && size > 2), "data crosses nodes");
            TRV_CHECK(!grid.crosses_nodes("none"), "an axis that is not there");
            for (const std::string axis : {"data", "pipeline", "tensor", "none"}) {
                Comm& along = grid.along(axis);
                const std::vector<i64> group = mesh.group(grid.at(), {axis});
                TRV_CHECK(along.world_ranks() == std::vector<int>(group.begin(), group.end()), "along ",
                          axis);
                TRV_CHECK(along.world_ranks()[along.rank()] == comm.rank(), "own rank along ", axis);
                u64 members = 0;
                for (const i64 r : group)
                    members |= u64{1} << r;
                TRV_CHECK(agree(along, u64{1} << comm.rank()) == members, "members along ", axis);
            }
        }
}

/// Axes of a factorised mesh, as sub-axes are named.
void joint_axes(Comm& comm)
{
    const i64 size = comm.size();
    for (i64 x = 1; x <= size; ++x)
        for (i64 y = 1; x * y <= size; ++y) {
            if (size % (x * y) != 0)
                continue;
            const std::string first = "x:(1)2", second = "y", third = "x:(2)3";
            const Mesh mesh{{{first, x}, {second, y}, {third, size / (x * y)}}};
            const std::vector<std::string> joints{first + "+" + third, third + "+" + second,
                                                  second + "+" + first + "+" + third, second + "+none"};
            const Grid grid(comm, mesh, str("n", comm.rank() / 2), {}, joints);
            std::vector<Comm*> seen{&grid.world()};
            for (const std::string& axis : grid.groups()) {
                Comm& along = grid.along(axis);
                TRV_CHECK(std::find(seen.begin(), seen.end(), &along) == seen.end(), axis, " shares a Comm");
                seen.push_back(&along);
            }
            for (const std::string& joint : joints) {
                // The naive group: all ranks with the same coordinates elsewhere.
                std::vector<int> members;
                bool crosses = false;
                for (int r = 0; r < comm.size(); ++r) {
                    const Coordinates at = mesh.coordinates(r);
                    bool member = true;
                    for (std::size_t i = 0; i < 3; ++i)
                        member = member && (at[i] == grid.at()[i] ||
                                            ("+" + joint + "+").find("+" + mesh.axes[i].name + "+") !=
                                                std::string::npos);
                    if (member)
                        members.push_back(r);
                    crosses = crosses || (member && r / 2 != comm.rank() / 2);
                }
                Comm& along = grid.along(joint);
                TRV_CHECK(along.world_ranks() == members, "members along ", joint);
                TRV_CHECK(along.world_ranks()[static_cast<std::size_t>(along.rank())] == comm.rank(),
                          "own rank along ", joint);
                TRV_CHECK(mesh.ranks_along(joint) == along.size(), mesh.ranks_along(joint), " ranks along ",
                          joint);
                u64 present = 0;
                for (const int r : members)
                    present |= u64{1} << r;
                TRV_CHECK(agree(along, u64{1} << comm.rank()) == present, "agreement along ", joint);
                TRV_CHECK(grid.crosses_nodes(joint) == (agree(comm, crosses ? 1 : 0) != 0), joint,
                          " crosses nodes");
            }
            bool refused = false;
            try {
                grid.along(second + "+" + third); // listed as another name
            } catch (const InternalError&) {
                refused = true;
            }
            TRV_CHECK(refused == (mesh.ranks_along(second + "+" + third) > 1),
                      "a joint axis that is not listed");
            // Ranks may list different ones.
            Grid more(comm, mesh, "node");
            more.open({joints[static_cast<std::size_t>(comm.rank()) % 2], joints[2]});
            more.open({});
            for (std::size_t i = 0; i < std::min<std::size_t>(static_cast<std::size_t>(size), 2); ++i)
                TRV_CHECK(more.along(joints[i]).world_ranks() == grid.along(joints[i]).world_ranks(),
                          "a joint axis that some ranks listed");
        }
}

} // namespace

std::vector<RankCase> comm_cases()
{
    return {{"exchanges", exchanges},
            {"exchanges under way", exchanges_under_way},
            {"messages between neighbours", messages_between_neighbours},
            {"messages stay in order", messages_stay_in_order},
            {"subgroups", subgroups},
            {"agreement", agreement},
            {"success together", success_together},
            {"grids", grids},
            {"joint axes", joint_axes}};
}
