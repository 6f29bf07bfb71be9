#pragma once
// Happens-before by brute force: the transitive closure of queue order and waits.
#include "schedule/schedule.hpp"

namespace trivium {

class Closure {
public:
    explicit Closure(const Schedule& s) : earlier_(s.steps.size())
    {
        for (std::size_t later = 0; later < s.steps.size(); ++later) {
            const std::size_t words = later / 64 + 1;
            earlier_[later].resize(words);
            const auto follow = [&](std::size_t step) {
                earlier_[later][step / 64] |= u64{1} << step % 64;
                for (std::size_t w = 0; w < earlier_[step].size(); ++w)
                    earlier_[later][w] |= earlier_[step][w];
            };
            for (std::size_t step = 0; step < later; ++step)
                if (s.steps[step].queue == s.steps[later].queue)
                    follow(step);
            for (const StepId wait : s.steps[later].waits)
                if (wait.index() < later)
                    follow(wait.index());
        }
    }

    bool before(std::size_t earlier, std::size_t later) const
    {
        return earlier < later && (earlier_[later][earlier / 64] >> earlier % 64 & 1) != 0;
    }

    /// Whether every Step of `a` has certainly ended before any of `b` begins.
    bool all_before(const std::vector<std::size_t>& a, const std::vector<std::size_t>& b) const
    {
        for (const std::size_t x : a)
            for (const std::size_t y : b)
                if (!before(x, y))
                    return false;
        return true;
    }

private:
    std::vector<std::vector<u64>> earlier_; ///< by Step: the Steps that end before it, as bits
};

} // namespace trivium
