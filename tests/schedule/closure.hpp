#pragma once
// Happens-before once more, by brute force: the transitive closure of queue order and waits, Step by Step.
#include "schedule/schedule.hpp"

namespace trivium {

class Closure {
public:
    explicit Closure(const Schedule& s) : before_(s.steps.size(), std::vector<bool>(s.steps.size(), false))
    {
        for (std::size_t later = 0; later < s.steps.size(); ++later)
            for (std::size_t earlier = 0; earlier < later; ++earlier) {
                bool direct = s.steps[earlier].queue == s.steps[later].queue;
                for (const StepId wait : s.steps[later].waits)
                    direct = direct || wait.index() == earlier;
                if (!direct)
                    continue;
                before_[earlier][later] = true;
                for (std::size_t i = 0; i < earlier; ++i)
                    if (before_[i][earlier])
                        before_[i][later] = true;
            }
    }

    bool before(std::size_t earlier, std::size_t later) const { return before_[earlier][later]; }

    /// Every one of `a` is surely over before any of `b` begins.
    bool all_before(const std::vector<std::size_t>& a, const std::vector<std::size_t>& b) const
    {
        for (const std::size_t x : a)
            for (const std::size_t y : b)
                if (!before(x, y))
                    return false;
        return true;
    }

private:
    std::vector<std::vector<bool>> before_;
};

} // namespace trivium
