// The device's copies and sums, thread by thread, against the host's.
#include "catch.hpp"
#include "mpi/combine.hpp"
#include "tile_threads.hpp"

#include <cstring>

using namespace trivium;

namespace {

using Data = std::vector<std::byte>;

/// A number below `limit`, a new one at each call.
struct Dice {
    u64 state;
    i64 operator()(i64 limit)
    {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return static_cast<i64>((state >> 33) % static_cast<u64>(limit));
    }
};

Data noise(std::size_t size, u64 seed)
{
    Dice dice{seed};
    Data data(size);
    for (std::byte& b : data)
        b = static_cast<std::byte>(dice(256));
    return data;
}

} // namespace

TEST_CASE("copies of any alignment, count and size")
{
    for (const i64 count : {1, 3, 47, 48, 49, 200}) {
        Dice dice{static_cast<u64>(count)};
        const Data from = noise(200000, 3);
        Data to(from.size() + 2000000, std::byte{0xa5}), expected = to;
        std::vector<CopyBlock> blocks;
        const auto add = [&](CopyBlock block, i64& end) {
            block.to = to.data() + end;
            end += block.rows * block.to_stride + 16;
            blocks.push_back(block);
        };
        i64 end = 0;
        for (i64 i = 0; i < count; ++i) {
            const i64 unit = i64{2} << dice(4), rows = 1 + dice(6) * dice(2);
            CopyBlock block;
            block.row = unit * dice(i % 7 == 0 ? 600 : 20); // some rows are empty
            block.rows = rows;
            block.from_stride = block.row + unit * dice(5);
            block.to_stride = block.row + unit * dice(5);
            block.from = from.data() + unit * dice(100);
            end = round_up(end, unit);
            add(block, end);
        }
        REQUIRE(end < static_cast<i64>(to.size()));
        copy_by_threads(blocks);
        for (CopyBlock& block : blocks)
            block.to = expected.data() + (block.to - to.data());
        copy_blocks(blocks);
        CHECK(to == expected);
    }
}

TEST_CASE("a copy of more tiles than thread blocks, and one in place")
{
    const std::size_t size = static_cast<std::size_t>(tiles::largest_grid) * tiles::tile * 2 * 2 +
                             6; // in units of 2: two iterations
    const Data from = noise(size, 1);
    Data to(size + 2);
    const CopyBlock block{to.data() + 2, from.data(), static_cast<Bytes>(size), 1, 0, 0};
    copy_by_threads({&block, 1});
    CHECK(std::equal(from.begin(), from.end(), to.begin() + 2));
    const CopyBlock in_place{to.data(), to.data(), 64, 1, 0, 0};
    const Data before = to;
    copy_by_threads({&in_place, 1});
    CHECK(to == before);
    const CopyBlock odd{to.data() + 1, from.data(), 8, 1, 0, 0};
    CHECK_THROWS_AS(copy_by_threads({&odd, 1}), InternalError);
}

TEST_CASE("sums in the order of the ranks, for any alignment and number of blocks")
{
    const std::pair<DType, Combine> reductions[] = {
        {DType::f32, Combine::sum},  {DType::bf16, Combine::sum}, {DType::f64, Combine::sum},
        {DType::bf16, Combine::max}, {DType::f32, Combine::min},  {DType::f64, Combine::product},
        {DType::i32, Combine::sum},  {DType::i32, Combine::min},  {DType::i32, Combine::product}};
    for (const auto& [type, combine] : reductions)
        for (const int ranks : {1, 2, 3, 8})
            for (const bool own_slot : {true, false})
                for (const i64 shift : {0, 1, 3}) // elements off the alignment
                    for (const i64 blocks : {1, 60}) {
                        const Bytes element = size_of(type);
                        const int rank = ranks / 2;
                        Combination all{type, combine, ranks, rank, nullptr, 0, own_slot, {}};
                        const i64 row = shift == 0 ? 1600 / element : 203, rows = 3,
                                  stride = row + 16 * (shift == 0);
                        all.slot =
                            round_up((blocks * rows * row + shift) * element, shift == 1 ? element : 64);
                        const auto fill = [&](std::size_t bytes, u64 seed) {
                            Dice dice{seed};
                            Data data(bytes + 16);
                            for (std::size_t i = 0; i + 8 <= data.size();
                                 i += static_cast<std::size_t>(element)) {
                                const double value =
                                    (static_cast<double>(dice(1 << 20)) - 5e5) * (dice(2) == 0 ? 1e-3 : 1e3);
                                const auto store = [&](auto v) {
                                    std::memcpy(data.data() + i, &v, sizeof v);
                                };
                                all.type == DType::f64   ? store(value)
                                : all.type == DType::f32 ? store(static_cast<float>(value))
                                : all.type == DType::i32 ? store(static_cast<std::int32_t>(value))
                                                         : store(bf16(static_cast<float>(value)));
                            }
                            return data;
                        };
                        const Data slots = fill(static_cast<std::size_t>(all.slot * ranks), 5);
                        Data own =
                            fill(static_cast<std::size_t>((blocks * rows * stride + shift) * element), 6);
                        Data out(static_cast<std::size_t>((blocks * rows * row + shift) * element),
                                 std::byte{0x55}),
                            expected = out;
                        all.slots = slots.data();
                        for (i64 b = 0; b < blocks; ++b)
                            all.blocks.push_back({out.data() + (b * rows * row + shift) * element,
                                                  own.data() + (b * rows * stride + shift) * element, stride,
                                                  b * rows * row + (shift == 3 ? 3 : 0), rows, row});
                        combine_by_threads(all);
                        for (CombineBlock& block : all.blocks)
                            block.out = expected.data() + (block.out - out.data());
                        combine_blocks(all);
                        INFO(name_of(type) << " by " << name_of(combine) << ", " << ranks << " ranks, shift "
                                           << shift << ", " << blocks << " blocks");
                        CHECK(out == expected);
                    }
}

TEST_CASE("rows and columns of units, also beyond 32 bits")
{
    const auto is = [](i64 i, i64 rows, i64 row) {
        const tiles::Place place = tiles::place_of(i, rows, row);
        return place.row * row + place.column == i && place.column < row && place.column >= 0;
    };
    CHECK(is(0, 5, 7));
    CHECK(is(34, 5, 7));
    CHECK(is(i64{1} << 40, 1, i64{1} << 41));
    CHECK(is((i64{1} << 33) + 5, 1000, (i64{1} << 32) + 3));
    CHECK(is((i64{1} << 32) - 1, i64{1} << 30, 12));
    CHECK(is((i64{1} << 32) + 7, i64{1} << 30, 12));
}
