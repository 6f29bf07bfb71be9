#pragma once
// Internal: kernels on seeded numbers, compared with simple loops in f64.
#include "kernels/exec.hpp"
#include "runtime/device.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trivium {

/// Where the kernels of a check run: on threads of the host, or on a stream of the device.
class CheckStream {
public:
    explicit CheckStream(int threads)
    {
        exec_.threads = threads;
        if (computes_on_device())
            exec_ = stream_.emplace(current_device()).exec();
    }
    const kernels::Exec& exec() const { return exec_; }
    void wait() const
    {
        if (stream_)
            stream_->wait();
    }

private:
    std::optional<Stream> stream_;
    kernels::Exec exec_;
};

/// Result of a kernel, and the expected result.
struct KernelResult {
    std::string kernel; ///< "product f32"
    std::vector<double> got, expected;
    double tolerance = 0; ///< maximum of error()

    /// Largest difference / largest expected magnitude; infinite if a value is not finite.
    double error() const;
};

/// Runs each kernel where this build computes (host or device) and visits its result. The operands depend on
/// `seed` only: results have the same bits on similar processors.
void run_kernels(int threads, std::uint64_t seed, const std::function<void(KernelResult&)>& visit);

} // namespace trivium
