#pragma once
// TRV_KERNEL(f<T>) instantiates a kernel that has no overloads; TRV_FOR_STORAGE(f) does so for each storage
// type, TRV_FOR_REAL(f) for each accumulator type, TRV_FOR_TENSOR(f) for each type that a tensor may have.
// Types that follow f are its further arguments.
#define TRV_KERNEL(...) template decltype(__VA_ARGS__) __VA_ARGS__;
#define TRV_FOR_REAL(f, ...)                                                                                 \
    TRV_KERNEL(f<double __VA_OPT__(, ) __VA_ARGS__>) TRV_KERNEL(f<float __VA_OPT__(, ) __VA_ARGS__>)
#define TRV_FOR_STORAGE(f, ...)                                                                              \
    TRV_FOR_REAL(f __VA_OPT__(, ) __VA_ARGS__) TRV_KERNEL(f<bf16 __VA_OPT__(, ) __VA_ARGS__>)
#define TRV_FOR_TENSOR(f, ...)                                                                               \
    TRV_FOR_STORAGE(f __VA_OPT__(, ) __VA_ARGS__) TRV_KERNEL(f<std::int32_t __VA_OPT__(, ) __VA_ARGS__>)
