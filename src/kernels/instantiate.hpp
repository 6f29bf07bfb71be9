#pragma once
// TRV_FOR_STORAGE(X) writes X(T) for each storage type, TRV_FOR_REAL(X) for each accumulator type,
// TRV_FOR_TENSOR(X) for each type that a tensor may have.
#define TRV_FOR_STORAGE(X) X(double) X(float) X(bf16)
#define TRV_FOR_REAL(X) X(double) X(float)
#define TRV_FOR_TENSOR(X) X(double) X(float) X(bf16) X(std::int32_t)
