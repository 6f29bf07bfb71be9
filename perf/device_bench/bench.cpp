#include "bench.hpp"

#include "base/check.hpp"
#include "base/rng.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace trivium {

Sizes gpt2_sizes(bool tiny)
{
    return tiny ? Sizes{"gpt2", 2, 24, 40, 5, 1, 8, 96, 131}
                : Sizes{"gpt2", 16, 1024, 1600, 25, 1, 64, 6400, 50304};
}

Sizes llama_sizes(bool tiny)
{
    return tiny ? Sizes{"llama", 1, 40, 64, 2, 2, 16, 112, 257}
                : Sizes{"llama", 2, 8192, 4096, 8, 4, 128, 14336, 128256};
}

void Errors::add(double got, double want)
{
    got_.push_back(got);
    want_.push_back(want);
}

void Errors::add(const std::vector<double>& got, const std::vector<double>& want)
{
    TRV_CHECK(got.size() == want.size(), got.size(), " numbers, ", want.size(), " expected");
    got_.insert(got_.end(), got.begin(), got.end());
    want_.insert(want_.end(), want.begin(), want.end());
}

double Errors::largest() const
{
    TRV_CHECK(!want_.empty(), "nothing was compared");
    double square = 0;
    for (const double want : want_)
        square += want * want;
    const double size = std::sqrt(square / static_cast<double>(want_.size()));
    double result = 0;
    for (std::size_t i = 0; i < want_.size(); ++i) {
        const double error = std::abs(got_[i] - want_[i]) / (std::abs(want_[i]) + size + 1e-300);
        if (!(error <= result)) // a NaN stays
            result = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    }
    return result;
}

int Bench::sets(double bytes) const
{
    const double wanted = std::ceil(3 * static_cast<double>(bed.cache()) / std::max(bytes, 1.0));
    return static_cast<int>(std::clamp(wanted, 1.0, 16.0));
}

std::vector<i64> Bench::sample(i64 n, int count) const
{
    const RandomStream random(4, "sample");
    std::set<i64> chosen{0, n - 1};
    for (int i = 2; i < count; ++i)
        chosen.insert(static_cast<i64>(random.bits_at(static_cast<u64>(i)) % static_cast<u64>(n)));
    return {chosen.begin(), chosen.end()};
}

Seconds Bench::time(const Case& test, int calls) const
{
    const int in_turn = sets(test.bytes);
    const auto call = [&](int i) { test.call(bed.exec(), i % in_turn); };
    if (calls == 0) {
        const std::vector<Seconds> warm = bed.time(3, call);
        calls = tiny_ ? 2 : static_cast<int>(std::clamp(0.2 / warm.back(), 5.0, 50.0));
    }
    std::vector<Seconds> seconds = bed.time(calls, call);
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
}

void Bench::print(const std::string& name, const Case* test, double error, Seconds seconds, double share,
                  bool good, const std::string& note)
{
    passed_ = passed_ && good;
    if (json_) {
        nlohmann::ordered_json row{{"name", name}, {"verdict", good ? "passed" : "failed"}, {"note", note}};
        if (test) { // JSON has no NaN or infinity
            row["error"] = std::isfinite(error) ? error : 1e99;
            row["tolerance"] = test->tolerance;
        }
        if (seconds > 0)
            row["seconds"] = seconds;
        if (share > 0)
            row["share"] = share;
        fmt::print("{}\n", row.dump());
    } else {
        fmt::print("{:<44} {:>9} {:>9} {:>11.1f} us {:>5} {:<6} {}\n", name,
                   test ? fmt::format("{:.1e}", error) : "",
                   test ? fmt::format("{:.0e}", test->tolerance) : "", 1e6 * seconds,
                   share > 0 ? fmt::format("{:.0f} %", 100 * share) : "", good ? "passed" : "FAILED", note);
    }
    std::fflush(stdout);
}

void Bench::measure_copy()
{
    const i64 bytes = tiny_ ? 1 << 16 : i64{4} << 30;
    const std::shared_ptr<void> from = bed.allocate(bytes), to = bed.allocate(bytes);
    const Case test{"copy",
                    2.0 * static_cast<double>(bytes),
                    0,
                    0,
                    [&](const kernels::Exec&, int) { bed.copy(to.get(), from.get(), bytes); },
                    {}};
    const Seconds seconds = time(test);
    copied_ = test.bytes / seconds;
    print("copy, the ceiling of bytes", nullptr, 0, seconds, 0, true,
          fmt::format("{:.2f} TB/s read and written", copied_ / 1e12));
}

void Bench::measure_product(const Case& product)
{
    measure(product);
    const Seconds seconds = time(product);
    multiplied_ = product.flops / seconds;
    print("product, the ceiling of operations", nullptr, 0, seconds, 0, true,
          fmt::format("{:.0f} TFLOP/s", multiplied_ / 1e12));
}

void Bench::measure(const Case& test)
{
    double error = std::numeric_limits<double>::infinity();
    try {
        test.call(bed.exec(), 0);
        error = test.error();
        const Seconds seconds = time(test), least = std::max(copied_ > 0 ? test.bytes / copied_ : 0,
                                                             multiplied_ > 0 ? test.flops / multiplied_ : 0);
        const bool by_bytes = multiplied_ <= 0 || test.bytes / copied_ >= test.flops / multiplied_;
        print(test.name, &test, error, seconds, least / seconds, error <= test.tolerance,
              test.flops > 0 && !by_bytes ? fmt::format("{:.0f} TFLOP/s", test.flops / seconds / 1e12)
                                          : fmt::format("{:.2f} TB/s", test.bytes / seconds / 1e12));
    } catch (const std::exception& failure) {
        const std::string text = failure.what();
        print(test.name, &test, error, 0, 0, false, text.substr(0, text.find('\n')));
    }
}

} // namespace trivium
