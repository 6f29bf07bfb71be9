#pragma once
// A search in a range of numbers.

namespace trivium {

/// The first number of [first, last) for which `holds`, otherwise `last`. \pre `holds` for all behind it, too
template <class Number, class Predicate>
Number first_that(Number first, Number last, Predicate&& holds)
{
    while (first < last) {
        const Number middle = first + (last - first) / 2;
        if (holds(middle))
            last = middle;
        else
            first = middle + 1;
    }
    return last;
}

} // namespace trivium
