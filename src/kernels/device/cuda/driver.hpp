#pragma once
// The driver library, looked up on first use.

namespace trivium::kernels {

/// Whether this machine has a driver. Using this function links driver.cpp, which defines the driver
/// functions that Kokkos calls. Linked to the driver itself, the program could not start on machines without
/// one.
bool driver_installed();

} // namespace trivium::kernels
