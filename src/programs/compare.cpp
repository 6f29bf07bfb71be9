#include "programs/compare.hpp"

#include "mpi/records.hpp"
#include "passes/sharding/overlap_halos.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trivium {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class T>
double difference_of(const TensorType& whole, const T* expected, const Box& box, const T* got)
{
    double least = 0; // of denominators
    if (is_floating(whole.dtype))
        for (i64 i = 0; i < whole.elements(); ++i)
            if (const double x = std::abs(static_cast<double>(expected[i])); std::isfinite(x))
                least = std::max(least, x / 100);
    double largest = 0;
    for_each_run(whole.shape, box, [&](i64 global, i64 local, i64 count) {
        for (i64 i = 0; i < count; ++i) {
            const auto a = static_cast<double>(got[local + i]), b = static_cast<double>(expected[global + i]);
            if (a == b || (std::isnan(a) && std::isnan(b)))
                continue;
            double here = infinity;
            if (!is_floating(whole.dtype))
                here = std::abs(a - b);
            else if (std::isfinite(a) && std::isfinite(b))
                here = std::abs(a - b) / std::max(std::abs(b), least);
            largest = std::max(largest, here);
        }
    });
    return largest;
}

/// The bytes of a shard and its box: so many numbers for each tensor of as many dimensions.
std::vector<i64> numbers_of(const TensorShard& shard)
{
    std::vector<i64> numbers{static_cast<i64>(shard.data.size())};
    for (const Shape* part : {&shard.box.offset, &shard.box.shape})
        numbers.insert(numbers.end(), part->begin(), part->end());
    return numbers;
}

template <class T>
Piece piece_of(std::vector<T>& data)
{
    return {reinterpret_cast<std::byte*>(data.data()), static_cast<Bytes>(data.size() * sizeof(T))};
}

/// On rank 0: calls visit(box, data) with each rank's part of an output, its own first. The others send
/// theirs.
template <class Visit>
void each_shard(Comm& comm, TensorShard& own, Visit&& visit)
{
    constexpr int box_tag = 0, data_tag = 1;
    if (comm.rank() > 0) {
        std::vector<i64> numbers = numbers_of(own);
        const auto sent = comm.send(0, box_tag, piece_of(numbers));
        comm.send(0, data_tag, piece_of(own.data))->wait();
        sent->wait();
        return;
    }
    if (!own.data.empty())
        visit(own.box, own.data);
    const std::size_t dims = own.type.shape.size();
    for (int rank = 1; rank < comm.size(); ++rank) {
        std::vector<i64> numbers(1 + 2 * dims);
        comm.receive(rank, box_tag, piece_of(numbers))->wait();
        const auto begin = numbers.begin() + 1, middle = begin + static_cast<std::ptrdiff_t>(dims);
        const Box box{{begin, middle}, {middle, numbers.end()}};
        TensorBytes data(static_cast<std::size_t>(numbers[0]));
        comm.receive(rank, data_tag, piece_of(data))->wait();
        if (!data.empty())
            visit(box, data);
    }
}

} // namespace

double difference(const TensorType& whole, const std::byte* expected, const Box& box, const std::byte* got)
{
    return with_tensor_type(whole.dtype, [&](auto t) {
        using T = decltype(t);
        return difference_of(whole, reinterpret_cast<const T*>(expected), box,
                             reinterpret_cast<const T*>(got));
    });
}

Comparison compare_with_one_rank(const Graph& sharded, Comm& comm, const TensorSource& source,
                                 const CompareConfig& config)
{
    RankProgram program{sharded, {}};
    succeed_together(comm, [&] {
        program.local = program_of_rank(sharded, comm.rank(), config.decided, config.work).local;
        if (config.divide)
            program.local = overlap_halos(std::move(program.local));
    });
    Comparison result;
    RankRunConfig run = config.run;
    run.times = &result.times;
    std::vector<TensorShard> shards = run_rank(program, comm, source, run);
    run.repeats = 0;
    std::vector<TensorShard> expected;
    succeed_together(comm, [&] {
        if (comm.rank() == 0)
            expected = run_rank({sharded, unpartitioned(sharded)}, *make_self_comm(), source, run);
    });
    for (std::size_t i = 0; i < shards.size(); ++i) {
        ComparedOutput output{shards[i].name, shards[i].type, shards[i].sharding, {}, {}};
        if (comm.rank() == 0 && config.gather)
            output.whole.resize(static_cast<std::size_t>(output.type.bytes()));
        double largest = 0;
        each_shard(comm, shards[i], [&](const Box& box, const TensorBytes& data) {
            largest = std::max(largest, difference(output.type, expected[i].data.data(), box, data.data()));
            if (config.gather)
                place_box(output.type, data.data(), box, output.whole.data());
        });
        output.difference = share_record(comm, largest);
        result.difference = std::max(result.difference, output.difference);
        result.outputs.push_back(std::move(output));
        shards[i].data = {};
    }
    return result;
}

} // namespace trivium
