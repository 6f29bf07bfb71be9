#pragma once
// How kernels run on a device: a Kokkos team per row. The same names as host/row_parallel.hpp.
#include "base/check.hpp"
#include "kernels/exec.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>

namespace trivium::kernels {
inline namespace on_teams {

using Space = Kokkos::DefaultExecutionSpace;
using Team = Kokkos::TeamPolicy<Space>::member_type;

inline Space space_of(const Exec& exec)
{
    return exec.stream ? *static_cast<const Space*>(exec.stream) : Space();
}

/// One row in the hands of one team.
class Row {
public:
    KOKKOS_FUNCTION explicit Row(const Team& team) : team_(team) {}

    template <class F>
    KOKKOS_FUNCTION void each(i64 n, F f) const
    {
        Kokkos::parallel_for(Kokkos::TeamVectorRange(team_, n), [&](i64 i) { f(i); });
    }

    template <class A, class F>
    KOKKOS_FUNCTION A sum(i64 n, F f) const
    {
        A result = 0;
        Kokkos::parallel_reduce(Kokkos::TeamVectorRange(team_, n), [&](i64 i, A& total) { total += f(i); }, result);
        return result;
    }

    template <class A, class F>
    KOKKOS_FUNCTION A max(i64 n, F f) const
    {
        A result = 0;
        Kokkos::parallel_reduce(
            Kokkos::TeamVectorRange(team_, n),
            [&](i64 i, A& top) {
                const A value = f(i);
                top = value > top ? value : top;
            },
            Kokkos::Max<A>(result));
        // Kokkos starts a maximum of floats at the lowest finite number.
        return n > 0 && result > Kokkos::reduction_identity<A>::max() ? result : A(-INFINITY);
    }

    template <class F>
    KOKKOS_FUNCTION void single(F f) const
    {
        Kokkos::single(Kokkos::PerTeam(team_), [&] { f(); });
    }

    KOKKOS_FUNCTION void sync() const { team_.team_barrier(); }

private:
    const Team& team_;
};

template <class F>
void for_rows(const Exec& exec, const char* label, i64 rows, F f)
{
    if (rows == 0)
        return;
    Kokkos::parallel_for(
        label, Kokkos::TeamPolicy<Space>(space_of(exec), static_cast<int>(rows), Kokkos::AUTO),
        KOKKOS_LAMBDA(const Team& team) { f(Row(team), static_cast<i64>(team.league_rank())); });
}

template <class F>
void for_each_index(const Exec& exec, const char* label, i64 n, F f)
{
    Kokkos::parallel_for(label, Kokkos::RangePolicy<Space, Kokkos::IndexType<i64>>(space_of(exec), 0, n), f);
}

template <class A, class Value, class Store>
void for_columns(const Exec& exec, const char* label, i64 rows, i64 columns, Value value, Store store)
{
    for_each_index(exec, label, columns, KOKKOS_LAMBDA(i64 c) {
        A total = 0;
        for (i64 r = 0; r < rows; ++r)
            total += value(r, c);
        store(c, total);
    });
}

inline i64 task_workers(int, i64 tasks)
{
    return std::max<i64>(1, std::min<i64>(264, tasks));
}

template <class F>
void for_tasks(const Exec& exec, const char* label, i64 tasks, i64 workers, F f)
{
    for_rows(exec, label, workers, KOKKOS_LAMBDA(const Row& row, i64 worker) {
        for (i64 task = worker; task < tasks; task += workers)
            f(row, task, worker);
    });
}

} // namespace on_teams
} // namespace trivium::kernels
