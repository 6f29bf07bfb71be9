// Exchanges of boxes, cell by cell against one whole tensor.
#include "comm_suite.hpp"
#include "mpi/device_collective.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <random>
#include <thread>

using namespace trivium;

namespace {

using Draw = std::mt19937_64;

i64 random_below(Draw& draw, i64 n) { return static_cast<i64>(draw() % static_cast<u64>(n)); }

/// Calls `visit` with the coordinates of each cell of a box, row-major.
template <class Visit>
void each_cell(const Box& box, Visit&& visit)
{
    for (i64 i = 0; i < element_count(box.shape); ++i) {
        Shape at = box.offset;
        i64 rest = i;
        for (std::size_t d = box.shape.size(); d-- > 0; rest /= box.shape[d])
            at[d] += rest % box.shape[d];
        visit(at);
    }
}

/// The content of a dense box of the tensor, whose cells are hashes of their coordinates and of `seed`.
std::vector<std::byte> content(const Box& box, Bytes element, u64 seed)
{
    std::vector<std::byte> bytes;
    each_cell(box, [&](const Shape& at) {
        u64 x = seed * 0x9e3779b97f4a7c15u;
        for (const i64 i : at) {
            x = (x ^ static_cast<u64>(i + 1000)) * 0xbf58476d1ce4e5b9u;
            x ^= x >> 29;
        }
        const auto* first = reinterpret_cast<const std::byte*>(&x);
        bytes.insert(bytes.end(), first, first + element);
    });
    return bytes;
}

/// One rank's side of an exchange, with guarded memory.
class BoxTrial {
public:
    BoxTrial(Comm& comm, BoxExchangeShape shape, u64 seed)
        : shape_(std::move(shape)), own_(static_cast<std::size_t>(comm.rank())),
          in_(content(shape_.owned[own_], size_of(shape_.type), seed)),
          expected_(content(shape_.needed[own_], size_of(shape_.type), seed)), sent_(in_),
          scratch_bytes_(box_exchange_scratch(shape_, comm.rank())),
          scratch_(static_cast<std::byte*>(operator new(static_cast<std::size_t>(scratch_bytes_ + guard),
                                                        alignment)),
                   [](std::byte* data) { operator delete(data, alignment); }),
          out_(expected_.size() + guard),
          exchange_(comm, shape_, in_.data(), out_.data(), {scratch_.get(), scratch_bytes_})
    {
        refill();
    }

    BoxExchange& exchange() { return exchange_; }
    Bytes scratch() const { return scratch_bytes_; }

    void refill()
    {
        std::fill(out_.begin(), out_.end(), untouched);
        std::fill_n(scratch_.get(), scratch_bytes_ + guard, untouched);
    }
    void check(const std::string& what) const
    {
        const auto is_untouched = [](std::byte b) { return b == untouched; };
        TRV_CHECK(std::equal(expected_.begin(), expected_.end(), out_.begin()), what, ": other cells");
        TRV_CHECK(in_ == sent_, what, ": the input has changed");
        TRV_CHECK(std::all_of(out_.end() - guard, out_.end(), is_untouched), what, ": wrote beyond its box");
        TRV_CHECK(std::all_of(scratch_.get() + scratch_bytes_, scratch_.get() + scratch_bytes_ + guard,
                              is_untouched),
                  what, ": wrote beyond its scratch");
    }
    void run(const std::string& what)
    {
        for (int run = 0; run < 2; ++run) {
            refill();
            exchange_.start();
            exchange_.finish();
            TRV_CHECK(exchange_.progress() && exchange_.waits_for().empty(), what, ": over, and yet not");
            check(what);
        }
    }

private:
    static constexpr std::align_val_t alignment{64};
    static constexpr i64 guard = 64;
    static constexpr std::byte untouched{0xa5};

    BoxExchangeShape shape_;
    std::size_t own_;
    std::vector<std::byte> in_, expected_, sent_;
    Bytes scratch_bytes_;
    std::shared_ptr<std::byte> scratch_;
    std::vector<std::byte> out_;
    BoxExchange exchange_;
};

DType random_type(Draw& draw)
{
    const DType types[] = {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64};
    return types[random_below(draw, 5)];
}

Box random_part(Draw& draw, const Box& whole)
{
    Box part = whole;
    for (std::size_t d = 0; d < whole.shape.size(); ++d) {
        const i64 begin = random_below(draw, whole.shape[d] + 1);
        part.offset[d] += begin;
        part.shape[d] = random_below(draw, whole.shape[d] - begin + 1);
        if (random_below(draw, 3) == 0) {
            part.offset[d] = whole.offset[d];
            part.shape[d] = whole.shape[d];
        }
    }
    return part;
}

/// Cuts a tensor of 1 to 4 dimensions into boxes for some of the ranks; needed are any parts of it.
BoxExchangeShape random_boxes(Draw& draw, int ranks)
{
    Box whole;
    for (i64 d = 1 + random_below(draw, 4); d > 0; --d) {
        whole.offset.push_back(random_below(draw, 20) - 10);
        whole.shape.push_back(1 + random_below(draw, 8));
    }
    const std::size_t dims = whole.shape.size();
    std::vector<Box> parts{whole};
    for (i64 cuts = random_below(draw, ranks); cuts > 0; --cuts) {
        Box& old = parts[static_cast<std::size_t>(random_below(draw, static_cast<i64>(parts.size())))];
        const auto d = static_cast<std::size_t>(random_below(draw, static_cast<i64>(dims)));
        const i64 at = random_below(draw, old.shape[d] + 1); // one of the two may be empty
        Box rest = old;
        rest.offset[d] += at;
        rest.shape[d] -= at;
        old.shape[d] = at;
        parts.push_back(rest);
    }
    while (parts.size() < static_cast<std::size_t>(ranks)) {
        parts.push_back(random_part(draw, whole));
        parts.back().shape[static_cast<std::size_t>(random_below(draw, static_cast<i64>(dims)))] = 0;
    }
    std::shuffle(parts.begin(), parts.end(), draw);
    BoxExchangeShape shape{random_type(draw), std::move(parts), {}};
    for (int r = 0; r < ranks; ++r)
        shape.needed.push_back(random_below(draw, 4) == 0 ? whole : random_part(draw, whole));
    return shape;
}

void random_exchanges(Comm& comm)
{
    for (u64 seed = 1; seed <= 200; ++seed) {
        Draw draw(seed * 100 + static_cast<u64>(comm.size())); // the same on all ranks
        BoxTrial(comm, random_boxes(draw, comm.size()), seed).run(str("seed ", seed));
    }
}

/// The box of part `index` of `parts` of dimension `dim`.
Box part_box(const Shape& whole, std::size_t dim, int parts, int index)
{
    Box box{Shape(whole.size(), 0), whole};
    const IndexRange part = part_of(whole[dim], parts, index);
    box.offset[dim] = part.begin;
    box.shape[dim] = part.size;
    return box;
}

void classical_exchanges(Comm& comm)
{
    const int ranks = comm.size();
    const Shape whole{13, 6, 17}; // some parts are empty on 8 ranks
    const auto sharded = [&](std::size_t dim) {
        std::vector<Box> boxes;
        for (int r = 0; r < ranks; ++r)
            boxes.push_back(part_box(whole, dim, ranks, r));
        return boxes;
    };
    const std::vector<Box> everything(static_cast<std::size_t>(ranks), Box{{0, 0, 0}, whole});
    for (std::size_t dim = 0; dim < 3; ++dim) {
        BoxTrial gather(comm, {DType::bf16, sharded(dim), everything}, dim);
        gather.run(str("a gather of dimension ", dim));
        TRV_CHECK(ranks == 1 || (gather.scratch() == 0) == (dim == 0 || ranks == 1),
                  "scratch of a gather: ", gather.scratch());
        for (std::size_t other = 0; other < 3; ++other)
            BoxTrial(comm, {DType::f32, sharded(dim), sharded(other)}, dim)
                .run(str("from dimension ", dim, " to ", other));
        BoxExchangeShape turn{DType::f64, sharded(dim), {}}, halo = turn;
        for (int r = 0; r < ranks; ++r) {
            turn.needed.push_back(turn.owned[static_cast<std::size_t>((r + 1) % ranks)]);
            Box wider = halo.owned[static_cast<std::size_t>(r)]; // by two neighbours, across empty parts too
            const i64 begin = std::max<i64>(wider.offset[dim] - 2, 0),
                      end = std::min(wider.offset[dim] + wider.shape[dim] + 2, whole[dim]);
            wider.offset[dim] = begin;
            wider.shape[dim] = end - begin;
            halo.needed.push_back(wider);
        }
        BoxTrial permuted(comm, turn, dim);
        permuted.run(str("a permutation of dimension ", dim));
        TRV_CHECK(permuted.scratch() == 0, "whole boxes need no scratch");
        BoxTrial(comm, halo, dim).run(str("a halo of dimension ", dim));
    }
    // One owns all, and one needs all.
    BoxExchangeShape single{DType::i32, everything, everything};
    for (int r = 0; r < ranks; ++r) {
        if (r != ranks - 1)
            single.owned[static_cast<std::size_t>(r)].shape[1] = 0;
        if (r != 0)
            single.needed[static_cast<std::size_t>(r)].shape[2] = 0;
    }
    BoxTrial(comm, single, 9).run("from the last rank to the first");
    BoxTrial(comm, {DType::f32, {single.owned}, everything}, 9).run("from the last rank to all");
    std::vector<Box> lines, columns; // large
    for (int r = 0; r < ranks; ++r) {
        lines.push_back(part_box({500, 301}, 0, ranks, r));
        columns.push_back(part_box({500, 301}, 1, ranks, r));
    }
    BoxTrial(comm, {DType::f32, lines, columns}, 1).run("lines to columns");
}

/// Each rank advances them in its own order.
void exchanges_among_collectives(Comm& comm)
{
    constexpr i64 elements = 3000;
    Draw draw(static_cast<u64>(comm.size())), own(static_cast<u64>(comm.rank()));
    std::vector<std::unique_ptr<BoxTrial>> trials;
    for (u64 i = 0; i < 6; ++i)
        trials.push_back(std::make_unique<BoxTrial>(comm, random_boxes(draw, comm.size()), i));
    std::vector<std::vector<std::int32_t>> numbers(3, std::vector<std::int32_t>(elements, comm.rank() + 1));
    std::vector<Collective> sums;
    std::vector<std::shared_ptr<std::byte>> scratches;
    for (std::vector<std::int32_t>& each : numbers) {
        const CollectiveShape shape{CollectiveKind::all_reduce,
                                    DType::i32,
                                    Combine::max,
                                    {{1, elements, 1, each.data(), each.data()}}};
        const Bytes bytes = collective_scratch(shape, comm.size()).least;
        scratches.push_back(make_host_ground(comm)->allocate(bytes));
        sums.emplace_back(comm, shape, Piece{scratches.back().get(), bytes});
    }
    for (int run = 0; run < 5; ++run) {
        for (std::vector<std::int32_t>& each : numbers)
            each.assign(elements, (comm.rank() + run) % comm.size());
        for (std::size_t i = 0; i < trials.size(); ++i) {
            trials[i]->refill();
            trials[i]->exchange().start();
            if (i % 2 == 0)
                sums[i / 2].start();
        }
        TRV_CHECK(agree(comm, u64{1} << comm.rank()) == ~u64{0} >> (64 - comm.size()),
                  "an agreement between exchanges");
        std::size_t over = 0;
        while (over < trials.size() + sums.size()) {
            std::vector<std::size_t> order(trials.size() + sums.size());
            for (std::size_t i = 0; i < order.size(); ++i)
                order[i] = i;
            std::shuffle(order.begin(), order.end(), own);
            over = 0;
            for (const std::size_t i : order)
                over +=
                    i < trials.size() ? trials[i]->exchange().progress() : sums[i - trials.size()].progress();
            std::this_thread::yield();
        }
        for (const auto& trial : trials)
            trial->check("among collectives");
        for (const std::vector<std::int32_t>& each : numbers)
            TRV_CHECK(std::all_of(each.begin(), each.end(), [&](int n) { return n == comm.size() - 1; }),
                      "a maximum among exchanges of boxes");
    }
}

void refused_exchanges(Comm& comm)
{
    const auto ranks = static_cast<std::size_t>(comm.size());
    alignas(64) static thread_local std::byte memory[4096];
    const auto refused = [&](const BoxExchangeShape& shape, Piece scratch = {}) {
        try {
            BoxExchange(comm, shape, memory, memory + 1024,
                        scratch.data ? scratch : Piece{memory + 2048, 2048});
        } catch (const InternalError&) {
            return true;
        }
        return false;
    };
    BoxExchangeShape good{DType::f32, {}, {}};
    for (int r = 0; r < comm.size(); ++r) {
        good.owned.push_back({{0, r}, {2, 1}}); // columns
        good.needed.push_back({{0, 0}, {2, comm.size()}});
    }
    TRV_CHECK(!refused(good), "columns");
    BoxExchangeShape bad = good;
    bad.needed[ranks - 1].shape[0] = 3;
    TRV_CHECK(refused(bad), "a cell without an owner");
    bad = good;
    bad.needed[0].offset[1] = -1;
    TRV_CHECK(refused(bad), "a cell before the first one");
    bad = good;
    bad.owned[0].shape[1] = 0;
    TRV_CHECK(refused(bad), "a column without an owner");
    bad = good;
    bad.owned.push_back(bad.owned[0]);
    TRV_CHECK(refused(bad), "more boxes than ranks");
    bad.needed.push_back(bad.needed[0]);
    bad.owned.back().shape[1] = 0;
    TRV_CHECK(refused(bad), "boxes of another group");
    bad = good;
    bad.owned[0] = {{0}, {2}};
    TRV_CHECK(ranks == 1 || refused(bad), "other dimensions");
    bad = good;
    bad.needed[0].shape[0] = -1;
    TRV_CHECK(refused(bad), "a negative size");
    bad = good;
    bad.type = DType::u8;
    TRV_CHECK(refused(bad), "bytes");
    if (ranks == 1)
        return;
    bad = good;
    bad.owned[1] = bad.owned[0];
    TRV_CHECK(refused(bad), "two owners");
    const Bytes least = box_exchange_scratch(good, comm.rank());
    TRV_CHECK(least > 0 && refused(good, {memory + 2048, least - 1}) &&
                  !refused(good, {memory + 2048, least}),
              "too little scratch");
    TRV_CHECK(refused(good, {memory + 2048 + 32, 1024}), "scratch that is not aligned");
}

} // namespace

void boxes_between_devices(Comm& comm, TestDevice& device)
{
    Grid grid(comm, {{{"data", comm.size()}}}, "node");
    grid.open_devices(device.backend());
    DeviceComm& devices = grid.devices().along("data");
    const auto own = static_cast<std::size_t>(comm.rank());
    struct Boxes {
        BoxExchangeShape shape;
        std::shared_ptr<std::byte> in, out, scratch;
        std::optional<DeviceBoxExchange> exchange;
    };
    std::vector<Boxes> all(device.slow() ? 5 : 20);
    for (std::size_t i = 0; i < all.size(); ++i) {
        Boxes& b = all[i];
        Draw draw(i * 100 + static_cast<u64>(comm.size())); // the same on all ranks
        b.shape = random_boxes(draw, comm.size());
        const Bytes element = size_of(b.shape.type), scratch = box_exchange_scratch(b.shape, comm.rank());
        const auto bytes_of = [&](const Box& box) {
            return std::max<Bytes>(element_count(box.shape) * element, 1);
        };
        b.in = device.allocate(bytes_of(b.shape.owned[own]));
        b.out = device.allocate(bytes_of(b.shape.needed[own]));
        b.scratch = device.allocate(std::max<Bytes>(scratch, 64));
        b.exchange.emplace(devices, b.shape, b.in.get(), b.out.get(), Piece{b.scratch.get(), scratch});
    }
    grid.devices().connect();
    for (u64 run = 0; run < 2; ++run) {
        for (Boxes& b : all) {
            device.write(b.in.get(), content(b.shape.owned[own], size_of(b.shape.type), run), 0);
            b.exchange->enqueue(device.stream(0));
        }
        device.wait(0);
        for (std::size_t i = 0; i < all.size(); ++i) {
            const std::vector<std::byte> wanted =
                content(all[i].shape.needed[own], size_of(all[i].shape.type), run);
            TRV_CHECK(device.read(all[i].out.get(), std::ssize(wanted)) == wanted, "boxes ", i, ", run ",
                      run);
        }
    }
    grid.devices().check();
}

std::vector<RankCase> box_exchange_cases()
{
    return {{"random boxes", random_exchanges},
            {"gathers, all-to-alls, permutations, halos", classical_exchanges},
            {"exchanges of boxes among collectives", exchanges_among_collectives},
            {"boxes that do not fit", refused_exchanges}};
}
