#include "io/report/heat_palette.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace trivium {

const Palette& heat_palette()
{
    static const Palette made = [] {
        constexpr int anchors[][3] = {{68, 1, 84},    {71, 45, 123},  {59, 82, 139},
                                      {44, 114, 142}, {33, 144, 140}, {39, 173, 129},
                                      {93, 200, 99},  {170, 220, 50}, {253, 231, 37}};
        constexpr int steps = std::size(anchors) - 1;
        Palette palette;
        palette[0] = {128, 128, 128};
        for (std::size_t i = 1; i < palette.size(); ++i) {
            const double at = static_cast<double>(i - 1) / 254 * steps;
            const int begin = std::min(static_cast<int>(at), steps - 1);
            for (std::size_t c = 0; c < 3; ++c)
                palette[i][c] = static_cast<std::uint8_t>(std::lround(
                    anchors[begin][c] + (at - begin) * (anchors[begin + 1][c] - anchors[begin][c])));
        }
        return palette;
    }();
    return made;
}

} // namespace trivium
