// A single rank, with its own mailbox.
#include "mpi/mailbox.hpp"

namespace trivium {

std::unique_ptr<Comm> make_self_comm(int world_rank)
{
    return make_thread_comm(std::make_shared<Mailbox>(1), 0, 0, {0}, {world_rank});
}

} // namespace trivium
