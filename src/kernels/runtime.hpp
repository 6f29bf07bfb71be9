#pragma once
// Initialisation of the libraries behind the kernels.

namespace trivium::kernels {

/// Largest number of threads of a rank: OpenMP's limit ($OMP_THREAD_LIMIT), or 1 in builds without OpenMP.
int thread_limit();

/// Sets the threads of OpenMP and oneDNN for the calling thread, and initialises Kokkos (on that thread's
/// device); the destructor finalises Kokkos. Make one after MPI_Init_thread and destroy it before
/// MPI_Finalize. A second one during the lifetime of the first only sets the threads; later none can be made,
/// because Kokkos starts only once.
class Runtime {
public:
    /// \pre threads >= 1
    explicit Runtime(int threads = 1);
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;
    ~Runtime();

private:
    bool owner_ = false;
};

} // namespace trivium::kernels
