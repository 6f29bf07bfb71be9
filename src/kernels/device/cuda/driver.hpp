#pragma once
// The driver library, loaded on first use.

namespace trivium::kernels {

/// Whether this machine has a driver. Using this function links driver.cpp, which defines the driver
/// functions that Kokkos calls. A program linked to the driver itself could not start on machines without a
/// driver.
bool driver_installed();

} // namespace trivium::kernels
