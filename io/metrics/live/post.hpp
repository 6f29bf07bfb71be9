#pragma once
// HTTP by libcurl, in builds that have it (post.cpp; others have no_post.cpp).
#include <atomic>
#include <string>

namespace trivium {

bool can_post();

/// Posts JSON to `url`; gives up after `seconds`, or soon after `stop`. Returns what went wrong; empty:
/// nothing. \pre can_post()
std::string post_json(const std::string& url, const std::string& body, double seconds,
                      const std::atomic<bool>& stop);

} // namespace trivium
