#pragma once
// The hardware under measurement: the GPU (device_test_bed.cpp), or the host in builds without one
// (host_test_bed.cpp).
#include "kernels/exec.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trivium {

class TestBed {
public:
    /// Why there is none; empty if there is one.
    static std::string missing();

    TestBed();
    TestBed(const TestBed&) = delete;
    TestBed& operator=(const TestBed&) = delete;
    ~TestBed();

    const std::string& name() const;
    kernels::Exec exec() const;
    /// Size of the largest cache: inputs are larger, or there are several sets of them.
    Bytes cache() const;

    /// Aligned to 256 bytes, every byte 0xff: NaN in every type of numbers.
    std::shared_ptr<void> allocate(Bytes bytes) const;
    void write(void* to, const void* from, Bytes bytes) const;
    void copy(void* to, const void* from, Bytes bytes) const;
    void read(void* to, const void* from, Bytes bytes) const;
    /// Enqueues call(0), call(1), … and returns the seconds of each.
    std::vector<Seconds> time(int calls, const std::function<void(int)>& call) const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium
