// Boxes, compared with element-by-element references.
#include "catch.hpp"
#include "io/checkpoint/box.hpp"

#include <limits>
#include <random>

using namespace trivium;

namespace {

/// How often each element of `whole` is covered, by flattened index.
std::vector<int> paint(const Shape& whole, const std::vector<Box>& boxes)
{
    std::vector<int> covers(static_cast<std::size_t>(element_count(whole)), 0);
    for (std::size_t index = 0; index < covers.size(); ++index)
        for (const Box& box : boxes) {
            bool within = true;
            auto rest = static_cast<i64>(index);
            for (std::size_t d = whole.size(); d-- > 0; rest /= whole[d])
                within = within && rest % whole[d] >= box.offset[d] &&
                         rest % whole[d] < box.offset[d] + box.shape[d];
            covers[index] += within;
        }
    return covers;
}

/// Splits a box recursively at random places, up to `depth` times.
void split(std::mt19937_64& draw, const Box& box, int depth, std::vector<Box>& parts)
{
    std::vector<std::size_t> divisible;
    for (std::size_t d = 0; d < box.shape.size(); ++d)
        if (box.shape[d] > 1)
            divisible.push_back(d);
    if (depth == 0 || divisible.empty()) {
        parts.push_back(box);
        return;
    }
    const std::size_t d = divisible[draw() % divisible.size()];
    Box low = box, high = box;
    low.shape[d] = 1 + static_cast<i64>(draw() % static_cast<u64>(box.shape[d] - 1));
    high.offset[d] += low.shape[d];
    high.shape[d] -= low.shape[d];
    split(draw, low, depth - 1, parts);
    split(draw, high, depth - 1, parts);
}

} // namespace

TEST_CASE("tiling_fault accepts any tiling, and detects missing, extra and moved pieces")
{
    std::mt19937_64 draw(7);
    for (const Shape& whole : {Shape{12}, Shape{7, 5}, Shape{4, 3, 6}, Shape{2, 3, 2, 4}})
        for (int round = 0; round < 30; ++round) {
            std::vector<Box> boxes;
            split(draw, {Shape(whole.size(), 0), whole}, 3, boxes);
            CHECK(tiling_fault(whole, boxes) == "");
            const std::size_t at = draw() % boxes.size();
            std::vector<Box> fewer = boxes, more = boxes, moved = boxes;
            fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at));
            CHECK(tiling_fault(whole, fewer).find("hole") != std::string::npos);
            more.push_back(boxes[at]);
            CHECK(tiling_fault(whole, more).find("overlap") != std::string::npos);
            for (std::size_t d = 0; d < whole.size(); ++d)
                if (moved[at].offset[d] > 0) {
                    --moved[at].offset[d];
                    CHECK(tiling_fault(whole, moved).find("overlap") != std::string::npos);
                    ++moved[at].offset[d];
                }
        }
    CHECK(tiling_fault({}, {{}}) == "");
    CHECK(tiling_fault({}, {}) != "");
    CHECK(tiling_fault({}, {{}, {}}) != "");
    CHECK(tiling_fault({0, 4}, {}) == "");
}

TEST_CASE("boxes_of_range covers a range of flattened elements in order")
{
    for (const Shape& shape : {Shape{24}, Shape{6, 4}, Shape{2, 3, 4}, Shape{2, 1, 3, 4}})
        for (i64 begin = 0; begin <= 24; ++begin)
            for (i64 count = 0; begin + count <= 24; ++count) {
                i64 next = begin;
                bool in_order = true;
                for (const Box& box : boxes_of_range(shape, begin, count)) {
                    const std::vector<int> covers = paint(shape, {box});
                    for (i64 e = 0; e < element_count(box.shape); ++e, ++next)
                        in_order = in_order && covers[static_cast<std::size_t>(next)] == 1;
                }
                REQUIRE(in_order);
                REQUIRE(next == begin + count);
            }
    CHECK(boxes_of_range({}, 0, 1) == std::vector<Box>{{}});
}

TEST_CASE("sizes that overflow are refused")
{
    constexpr i64 most = std::numeric_limits<i64>::max();
    CHECK_FALSE(safe_count({most, 2}));
    CHECK_FALSE(safe_count({i64{1} << 32, i64{1} << 32}));
    CHECK_FALSE(safe_count({-1}));
    CHECK(safe_count({0, most, most}) == 0);
    CHECK(safe_count({3, 4}) == 12);
    CHECK(is_inside({{1, 0}, {3, 4}}, {4, 4}));
    CHECK_FALSE(is_inside({{2, 0}, {3, 4}}, {4, 4}));
    CHECK_FALSE(is_inside({{most, 0}, {1, 4}}, {4, 4}));
    CHECK_FALSE(is_inside({{-1, 0}, {1, 4}}, {4, 4}));
    CHECK_FALSE(is_inside({{0}, {4}}, {4, 4}));
}
