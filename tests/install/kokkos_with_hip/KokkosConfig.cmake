# The variables of a Kokkos for AMD GPUs.
set(Kokkos_VERSION 4.6.0)
set(Kokkos_DEVICES HIP SERIAL)
