#include "io/checkpoint/box.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace trivium {

std::string print_shape(const Shape& shape)
{
    std::string text = "[";
    for (const i64 extent : shape)
        text += str(text.size() > 1 ? ", " : "", extent);
    return text + "]";
}

std::string print_box(const Box& box) { return print_shape(box.shape) + " at " + print_shape(box.offset); }

std::optional<i64> safe_count(const Shape& shape)
{
    i64 count = 1;
    for (const i64 extent : shape) {
        if (extent < 0 || (extent > 0 && count > std::numeric_limits<i64>::max() / extent))
            return std::nullopt;
        count *= extent;
    }
    return count;
}

bool is_inside(const Box& box, const Shape& whole)
{
    bool inside = box.offset.size() == whole.size() && box.shape.size() == whole.size();
    for (std::size_t d = 0; inside && d < whole.size(); ++d)
        inside = box.offset[d] >= 0 && box.shape[d] >= 0 && box.shape[d] <= whole[d] &&
                 box.offset[d] <= whole[d] - box.shape[d];
    return inside;
}

std::vector<Box> boxes_of_range(const Shape& shape, i64 begin, i64 count)
{
    std::vector<Box> boxes;
    if (shape.empty() && count > 0)
        boxes.push_back({});
    if (shape.empty())
        return boxes;
    for (i64 at = begin; at < begin + count;) {
        // The largest box at `at`: complete inner dimensions, a range of one, single indices of the outer
        // ones.
        i64 inner = 1;
        std::size_t axis = shape.size() - 1;
        while (axis > 0 && at % (inner * shape[axis]) == 0 && begin + count - at >= inner * shape[axis]) {
            inner *= shape[axis];
            --axis;
        }
        i64 rest = at / inner;
        Box box{Shape(shape.size(), 0), shape};
        box.offset[axis] = rest % shape[axis];
        box.shape[axis] = std::min(shape[axis] - box.offset[axis], (begin + count - at) / inner);
        rest /= shape[axis];
        for (std::size_t d = axis; d-- > 0; rest /= shape[d]) {
            box.offset[d] = rest % shape[d];
            box.shape[d] = 1;
        }
        at += box.shape[axis] * inner;
        boxes.push_back(std::move(box));
    }
    return boxes;
}

namespace {

/// The dimension with the most distinct begins. Sorted by it, the fewest boxes overlap in that dimension.
std::size_t most_divided(const std::vector<Box>& boxes)
{
    std::size_t best = 0, most = 0;
    for (std::size_t d = 0; d < boxes[0].offset.size(); ++d) {
        std::vector<i64> begins;
        for (const Box& box : boxes)
            begins.push_back(box.offset[d]);
        std::sort(begins.begin(), begins.end());
        const auto places =
            static_cast<std::size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
        if (places > most) {
            most = places;
            best = d;
        }
    }
    return best;
}

/// Whether the intersection is not empty. Much faster than common_part().
bool overlap(const Box& a, const Box& b)
{
    for (std::size_t d = 0; d < a.shape.size(); ++d)
        if (std::min(a.offset[d] + a.shape[d], b.offset[d] + b.shape[d]) <=
            std::max(a.offset[d], b.offset[d]))
            return false;
    return true;
}

} // namespace

std::string tiling_fault(const Shape& whole, const std::vector<Box>& boxes)
{
    TRV_EXPECT(
        std::all_of(boxes.begin(), boxes.end(),
                    [&](const Box& box) { return is_inside(box, whole) && element_count(box.shape) > 0; }),
        "an empty piece, or one outside of ", print_shape(whole));
    if (whole.empty() && boxes.size() > 1)
        return str(boxes.size(), " pieces of a single value overlap");
    if (!whole.empty() && boxes.size() > 1) {
        const std::size_t axis = most_divided(boxes);
        std::vector<std::size_t> order(boxes.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            return boxes[a].offset[axis] < boxes[b].offset[axis];
        });
        for (std::size_t i = 0; i < order.size(); ++i) {
            const Box& a = boxes[order[i]];
            for (std::size_t j = i + 1;
                 j < order.size() && boxes[order[j]].offset[axis] < a.offset[axis] + a.shape[axis]; ++j)
                if (overlap(a, boxes[order[j]]))
                    return str("pieces ", print_box(a), " and ", print_box(boxes[order[j]]), " overlap");
        }
    }
    // The boxes are inside and disjoint, so they cover the whole if they have as many elements.
    i64 covered = 0;
    for (const Box& box : boxes)
        covered += element_count(box.shape);
    if (covered != element_count(whole))
        return str("has a hole: its pieces hold ", covered, " of ", element_count(whole), " values");
    return "";
}

} // namespace trivium
