// Every kernel of src/kernels at training sizes: error relative to a reference in double, time, fraction of
// the machine's ceiling.
//
//   perf_device [--json] [--tiny] [--only attention,products,rows,tokens,optimizer,algorithms]
//                                     one JSON object per row; sizes that any machine computes quickly
#include "base/check.hpp"
#include "bench.hpp"

#include <cstdio>
#include <cstring>
#include <string>

int main(int argc, char* argv[])
{
    bool tiny = false, json = false;
    std::string only;
    for (int i = 1; i < argc; ++i) {
        if (std::strcmp(argv[i], "--tiny") == 0) {
            tiny = true;
        } else if (std::strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
            only = argv[++i];
        } else {
            std::printf("usage: perf_device [--json] [--tiny] [--only "
                        "attention,products,rows,tokens,optimizer,algorithms]\n");
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
        const trivium::Sizes models[] = {trivium::gpt2_sizes(tiny), trivium::llama_sizes(tiny)};
        const auto wanted = [&](const char* part) {
            return only.empty() || ("," + only + ",").find("," + std::string(part) + ",") != only.npos;
        };
        // What takes most of a step comes first.
        struct Part {
            const char* name;
            void (*run)(trivium::Bench&, const trivium::Sizes&);
        };
        for (const auto& [part, run] : {Part{"attention", trivium::bench_attention},
                                        {"products", trivium::bench_products},
                                        {"rows", trivium::bench_rows},
                                        {"tokens", trivium::bench_tokens}})
            for (const trivium::Sizes& sizes : models)
                if (wanted(part))
                    run(bench, sizes);
        if (wanted("optimizer"))
            bench_optimizer(bench);
        if (!only.empty() && wanted("algorithms"))
            for (const trivium::Sizes& sizes : models)
                trivium::bench_algorithms(bench, sizes);
        return bench.passed() ? 0 : 1;
    } catch (const trivium::Error& error) {
        std::fprintf(stderr, "perf_device: %s\n", error.what());
        return error.exit_status();
    }
}
