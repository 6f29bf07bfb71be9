#include "plan/long_run.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

LongRun long_run(const Failures& f)
{
    TRV_EXPECT(f.between > 0, "no time between failures");
    LongRun run;
    const double part = f.stall / (2 * f.between);
    run.interval = part < 1
                       ? std::sqrt(2 * f.stall * f.between) * (1 + std::sqrt(part) / 3 + part / 9) - f.stall
                       : f.between;
    run.interval = std::max({run.interval, f.least, 1e-9});
    const Seconds wall =
        f.between * std::exp(f.restart / f.between) * std::expm1((run.interval + f.stall) / f.between);
    run.goodput = run.interval / wall;
    return run;
}

} // namespace trivium
