// Build for NVIDIA GPUs.
#include "plan/machine.hpp"

namespace trivium {

std::string default_machine() { return "h200"; }

} // namespace trivium
