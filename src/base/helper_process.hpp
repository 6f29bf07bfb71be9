#pragma once
// Helper processes: forked from a rank, with its environment, but not ranks.
#include <sys/prctl.h>

namespace trivium {

/// Their process name, by which ranks recognise them; at most 15 characters.
inline constexpr const char* helper_name = "trivium-helper";

/// Gives this process the name. \pre called on its main thread
inline void become_helper() { ::prctl(PR_SET_NAME, helper_name); }

} // namespace trivium
