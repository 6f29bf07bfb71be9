#pragma once
// Helper processes: forked from a rank, with its environment, but no ranks.
#include <sys/prctl.h>

namespace trivium {

/// Their name, by which others recognise them; at most 15 letters.
inline constexpr const char* helper_name = "trivium-helper";

/// Gives this process the name.
inline void become_helper() { ::prctl(PR_SET_NAME, helper_name); }

} // namespace trivium
