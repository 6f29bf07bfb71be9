#pragma once
// Numbers that know what they were computed from, so that gradients of plain loops follow.
#include <cmath>
#include <vector>

namespace reference {

inline const double circle = 2 * std::acos(-1.0);

/// What a number was computed from, with the derivatives by these.
struct Made {
    int from[2];
    double slope[2];
};
inline std::vector<Made> tape;

struct Num {
    double value = 0;
    int at = -1; ///< on the tape; -1: a constant

    Num(double constant = 0) : value(constant) {}
    Num(double result, Num a, double by_a, Num b = 0, double by_b = 0) : value(result)
    {
        if (a.at >= 0 || b.at >= 0) {
            at = static_cast<int>(tape.size());
            tape.push_back({{a.at, b.at}, {by_a, by_b}});
        }
    }
    static Num variable(double value)
    {
        Num made(value);
        made.at = static_cast<int>(tape.size());
        tape.push_back({{-1, -1}, {0, 0}});
        return made;
    }
};

inline Num operator+(Num a, Num b) { return {a.value + b.value, a, 1, b, 1}; }
inline Num operator-(Num a, Num b) { return {a.value - b.value, a, 1, b, -1}; }
inline Num operator*(Num a, Num b) { return {a.value * b.value, a, b.value, b, a.value}; }
inline Num operator/(Num a, Num b)
{
    return {a.value / b.value, a, 1 / b.value, b, -a.value / b.value / b.value};
}
inline Num exp(Num a) { return {std::exp(a.value), a, std::exp(a.value)}; }
inline Num log(Num a) { return {std::log(a.value), a, 1 / a.value}; }
inline Num sqrt(Num a) { return {std::sqrt(a.value), a, 0.5 / std::sqrt(a.value)}; }
inline Num tanh(Num a) { return {std::tanh(a.value), a, 1 - std::tanh(a.value) * std::tanh(a.value)}; }
inline Num erf(Num a)
{
    return {std::erf(a.value), a, 2 / std::sqrt(circle / 2) * std::exp(-a.value * a.value)};
}

} // namespace reference
