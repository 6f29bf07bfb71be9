#include "io/chat/jinja/limits.hpp"

#include "base/check.hpp"

namespace trivium::jinja {

namespace {
thread_local i64 work_left = default_work;
}

WorkLimit::WorkLimit(i64 steps) : before_(work_left) { work_left = steps; }
WorkLimit::~WorkLimit() { work_left = before_; }

void spend(std::size_t steps)
{
    work_left -= static_cast<i64>(steps);
    if (work_left < 0)
        throw Failure{"takes too many steps (an endless loop, or a very long chat)"};
}

void spend_on_text(std::size_t size, std::size_t more)
{
    if (more > max_text || size + more > max_text)
        throw Failure{str("makes a text of more than ", max_text >> 20, " MiB")};
    spend(1 + more / 16);
}

} // namespace trivium::jinja
