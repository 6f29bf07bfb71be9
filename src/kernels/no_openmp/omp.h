#pragma once
// What the kernels call of OpenMP, in a build without it (TRIVIUM_OPENMP=OFF): one thread, whatever is asked
// for.

inline int omp_get_thread_limit() { return 1; }
inline int omp_get_max_threads() { return 1; }
inline int omp_get_num_threads() { return 1; }
inline int omp_get_thread_num() { return 0; }
inline void omp_set_num_threads(int) {}
inline void omp_set_dynamic(int) {}
