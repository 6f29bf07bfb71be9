#pragma once
// How long a campaign runs and where it starts: TRIVIUM_SOAK_SECONDS and TRIVIUM_SOAK_SEED, else a short slice.
#include "base/rng.hpp"

#include <chrono>
#include <cstdlib>
#include <string>

class Campaign {
public:
    explicit Campaign(const std::string& name, double slice)
        : random_(number("TRIVIUM_SOAK_SEED", 1), name),
          end_(std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                      std::chrono::duration<double>(static_cast<double>(number("TRIVIUM_SOAK_SECONDS", 0)) > 0
                                                                                        ? static_cast<double>(number("TRIVIUM_SOAK_SECONDS", 0))
                                                                                        : slice)))
    {
    }
    bool goes_on() const { return std::chrono::steady_clock::now() < end_; }
    /// Uniform in [0, below).
    std::size_t draw(std::size_t below) { return static_cast<std::size_t>(random_.bits_at(drawn_++) % below); }
    /// Numbers drawn so far: with the seed, where a failure stands.
    std::uint64_t drawn() const { return drawn_; }

private:
    static std::uint64_t number(const char* name, std::uint64_t otherwise)
    {
        const char* text = std::getenv(name);
        return text ? std::strtoull(text, nullptr, 10) : otherwise;
    }

    trivium::RandomStream random_;
    std::uint64_t drawn_ = 0;
    std::chrono::steady_clock::time_point end_;
};
