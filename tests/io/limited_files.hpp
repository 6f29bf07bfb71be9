#pragma once
// Simulates a full disk: while this object exists, no file of this process may grow beyond `bytes` bytes.
#include <csignal>
#include <sys/resource.h>

namespace trivium {

class LimitedFiles {
public:
    explicit LimitedFiles(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN))
    {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit limit{bytes, before_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~LimitedFiles()
    {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }
    LimitedFiles(const LimitedFiles&) = delete;
    LimitedFiles& operator=(const LimitedFiles&) = delete;

private:
    rlimit before_{};
    void (*handler_)(int);
};

} // namespace trivium
