// The host's loops in a build without OpenMP: all work is done by one thread, however many are requested.
#include "catch.hpp"
#include "row_parallel.hpp"

#include <algorithm>
#include <vector>

using namespace trivium;
using namespace trivium::kernels;

TEST_CASE("without OpenMP one thread does the work of all")
{
    CHECK(omp_get_thread_limit() == 1);
    const Exec exec{4, nullptr};
    std::vector<int> rows(1000), indices(5000), tasks(7);
    on_host::for_rows<float>(exec, "rows", 1000, 1,
                             [&](auto, i64 row) { ++rows[static_cast<std::size_t>(row)]; });
    on_host::for_each_index(exec, "indices", 5000, [&](i64 i) { ++indices[static_cast<std::size_t>(i)]; });
    on_host::for_tasks(exec, "tasks", 7, 4, [&](auto, i64 task, i64 worker) {
        ++tasks[static_cast<std::size_t>(task)];
        CHECK(worker == 0);
    });
    for (const std::vector<int>& visits : {rows, indices, tasks})
        CHECK(std::all_of(visits.begin(), visits.end(), [](int n) { return n == 1; }));
}
