#include "base/check.hpp"
#include "io/metrics/live/post.hpp"

namespace trivium {

bool can_post() { return false; }

std::string post_json(const std::string& /*url*/, const std::string& /*body*/, double /*seconds*/,
                      const std::atomic<bool>& /*stop*/)
{
    throw InternalError(__FILE__, __LINE__, "this build has no libcurl");
}

} // namespace trivium
