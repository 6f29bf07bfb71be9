# What a Kokkos for AMD's GPUs says of itself.
set(Kokkos_VERSION 4.6.0)
set(Kokkos_DEVICES HIP SERIAL)
