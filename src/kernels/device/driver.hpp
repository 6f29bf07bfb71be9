#pragma once
// The driver library, looked up on first use.

namespace trivium::kernels {

/// Whether this machine has a driver. Naming it links driver.cpp, which has the driver's calls that Kokkos
/// makes: linked to the driver itself, the program would not even start where there is none.
bool driver_installed();

} // namespace trivium::kernels
