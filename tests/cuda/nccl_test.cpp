// A communicator of one: the call goes through NCCL and lands on the stream.
#include "mpi/nccl.hpp"
#include "support.hpp"

using namespace trivium;

TEST_CASE("the library that is loaded tells its version")
{
    CHECK(nccl_description().find("NCCL 2.") == 0);
}

TEST_CASE("a sum over one rank is its own numbers")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    const NcclComm comm(make_nccl_id(), 1, 0);
    const std::vector<float> x{1, 2.5, -3};
    const DeviceArray<float> in(x), out(3);
    comm.all_reduce(DType::f32, 3, in.data(), out.data(), stream.native());
    CHECK(out.read(stream) == x);
}
