#pragma once
// Gathers values over ranks as CBOR: of any type that nlohmann::json converts (numbers, text, lists, tuples,
// structs with NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE), exact for every integer and double, also infinite ones.
#include "mpi/comm.hpp"

#include <nlohmann/json.hpp>

namespace trivium {

template <class T>
std::string to_record(const T& value)
{
    std::string bytes;
    nlohmann::json::to_cbor(nlohmann::json(value), bytes);
    return bytes;
}

template <class T>
std::vector<T> from_records(const std::vector<std::string>& records)
{
    std::vector<T> values;
    for (const std::string& record : records)
        if (!record.empty())
            values.push_back(nlohmann::json::from_cbor(record).get<T>());
    return values;
}

/// Each member's value, by rank, on all members. Collective, as are the functions below.
template <class T>
std::vector<T> gather_records(Comm& comm, const T& value)
{
    return from_records<T>(gather_texts(comm, to_record(value)));
}

/// Each member's value, by rank, on rank 0; empty on the other ranks.
template <class T>
std::vector<T> gather_records_to_first(Comm& comm, const T& value)
{
    return from_records<T>(gather_to_first(comm, to_record(value)));
}

/// Rank 0's value, on all members.
template <class T>
T share_record(Comm& comm, const T& value)
{
    return from_records<T>({share_text(comm, comm.rank() == 0 ? to_record(value) : "")}).front();
}

} // namespace trivium
