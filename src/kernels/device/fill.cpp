#include "fill.hpp"

#include "team.hpp"

namespace trivium::kernels {
inline namespace on_teams {

namespace {

struct Fill {
    std::uint8_t* to;
    std::uint8_t value;
    KOKKOS_FUNCTION void operator()(i64 i) const { to[i] = value; }
};

} // namespace
} // namespace on_teams

void fill(const Exec& exec, void* to, std::uint8_t value, Bytes bytes)
{
    launch_range(exec, "fill", bytes, Fill{static_cast<std::uint8_t*>(to), value});
}

} // namespace trivium::kernels
