// Build for AMD GPUs.
#include "plan/machine.hpp"

namespace trivium {

std::string default_machine() { return "mi250x"; }

} // namespace trivium
