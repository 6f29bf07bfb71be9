#include "train/this_machine.hpp"

namespace trivium {

Machine machine_of(const Computing& computing)
{
    return computing.device().empty() ? machine_called("cpu") : machine_of_device(computing.device());
}

} // namespace trivium
