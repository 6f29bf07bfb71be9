// Every kernel of src/kernels at training sizes: error relative to a reference in double, time, fraction of
// the machine's ceiling.
//
//   perf_device [--json] [--tiny]     one JSON object per row; sizes that any machine computes quickly
#include "base/check.hpp"
#include "bench.hpp"

#include <cstdio>
#include <cstring>

int main(int argc, char* argv[])
{
    bool tiny = false, json = false;
    for (int i = 1; i < argc; ++i) {
        if (std::strcmp(argv[i], "--tiny") == 0) {
            tiny = true;
        } else if (std::strcmp(argv[i], "--json") == 0) {
            json = true;
        } else {
            std::printf("usage: perf_device [--json] [--tiny]\n");
            return std::strcmp(argv[i], "--help") == 0 ? 0 : 2;
        }
    }
    try {
        if (const std::string why = trivium::TestBed::missing(); !why.empty()) {
            std::printf("skipped: %s\n", why.c_str());
            return 0;
        }
        const trivium::TestBed bed;
        if (!json)
            std::printf("%s\n", bed.name().c_str());
        trivium::Bench bench(bed, tiny, json);
        bench_ceilings(bench);
        for (const trivium::Sizes& sizes : {trivium::gpt2_sizes(tiny), trivium::llama_sizes(tiny)}) {
            bench_products(bench, sizes);
            bench_attention(bench, sizes);
            bench_rows(bench, sizes);
            bench_tokens(bench, sizes);
        }
        bench_optimizer(bench);
        return bench.passed() ? 0 : 1;
    } catch (const trivium::Error& error) {
        std::fprintf(stderr, "perf_device: %s\n", error.what());
        return error.exit_status();
    }
}
