#pragma once
// The life of the libraries behind the kernels.

namespace trivium::kernels {

/// Threads that a rank can have: OpenMP's limit ($OMP_THREAD_LIMIT), and 1 in builds without OpenMP.
int thread_limit();

/// Initialises Kokkos, on a device the calling thread's, and sets the threads of OpenMP and oneDNN; finalises
/// what it initialised. Make one after MPI_Init_thread and destroy it before MPI_Finalize. A second one while
/// the first lives is harmless; after the first is gone there can be none, as Kokkos starts only once.
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
