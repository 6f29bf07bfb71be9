#pragma once
// Settings of tests labelled `soak`, from tests/soak: a seed and a time. By default they run a short slice.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace trivium::soak {

inline std::uint64_t number(const char* variable, std::uint64_t otherwise)
{
    const char* text = std::getenv(variable);
    return text && *text ? std::stoull(text) : otherwise;
}

/// Under tests/soak --whole: all of a finite list.
inline bool whole() { return number("TRIVIUM_SOAK_WHOLE", 0) > 0; }

inline std::uint64_t seed() { return number("TRIVIUM_SOAK_SEED", 1); }

/// Counts down a share of TRIVIUM_SOAK_SECONDS (default 1): `parts` cases of one program share it.
class Budget {
public:
    explicit Budget(int parts = 1)
        : end_(std::chrono::steady_clock::now() +
               std::chrono::milliseconds(1000 * number("TRIVIUM_SOAK_SECONDS", 1) /
                                         static_cast<unsigned>(parts)))
    {
    }
    bool left() const { return std::chrono::steady_clock::now() < end_; }

private:
    std::chrono::steady_clock::time_point end_;
};

} // namespace trivium::soak
