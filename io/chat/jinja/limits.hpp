#pragma once
// What a rendering may cost. Templates come from the internet: an endless loop or a huge text must end in an
// error.
#include "base/units.hpp"

#include <string>

namespace trivium::jinja {

/// What failed, without its place. Evaluating a template turns it into a UserError.
struct Failure {
    std::string problem;
};

inline constexpr i64 default_work = 50'000'000;                ///< steps of a rendering, a few seconds
inline constexpr std::size_t max_text = std::size_t{64} << 20; ///< bytes of one text
inline constexpr i64 max_range = 100'000;                      ///< numbers of a range, as in jinja2's sandbox
inline constexpr int max_nesting = 400;                        ///< of evaluations
inline constexpr int max_value_depth = 200;                    ///< of lists and dicts

/// The renderings of this thread may take `steps` while this object exists.
class WorkLimit {
public:
    explicit WorkLimit(i64 steps);
    WorkLimit(const WorkLimit&) = delete;
    WorkLimit& operator=(const WorkLimit&) = delete;
    ~WorkLimit();

private:
    i64 before_;
};

/// Counts steps. \throws Failure if the limit is exceeded
void spend(std::size_t steps = 1);
/// Counts `more` bytes that a text of `size` bytes gets. \throws Failure, also if it becomes too large
void spend_on_text(std::size_t size, std::size_t more);

} // namespace trivium::jinja
