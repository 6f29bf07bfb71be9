#pragma once
// OpenMP functions for builds without it (TRIVIUM_OPENMP=OFF): always one thread.

inline int omp_get_thread_limit() { return 1; }
inline int omp_get_max_threads() { return 1; }
inline int omp_get_num_threads() { return 1; }
inline int omp_get_thread_num() { return 0; }
inline void omp_set_num_threads(int) {}
inline void omp_set_dynamic(int) {}
