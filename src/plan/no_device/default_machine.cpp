// Build for CPUs.
#include "plan/machine.hpp"

namespace trivium {

std::string default_machine() { return "cpu"; }

} // namespace trivium
