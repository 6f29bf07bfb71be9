#pragma once
// Pipeline ranks that compute the same in other blocks of the model, so that only one of them is compiled.
#include "ir/graph.hpp"

#include <map>
#include <optional>
#include <tuple>
#include <vector>

namespace trivium {

/// What the passes made of the graph of one pipeline rank becomes that of another.
class StageTranslation {
public:
    /// `from`, `to`: of one StageGraphs. Nothing if they differ in more than names, initial contents, blocks
    /// and the ranks with which they exchange messages.
    static std::optional<StageTranslation> between(const Graph& from, const Graph& to);
    /// `finished`: made of `from`. As made of `to` for the rank at these coordinates, for a simulation:
    /// names, of computed values, and scopes, stay those of `from`.
    Graph translate(Graph finished, const Coordinates& at) const;

private:
    /// The attributes by which a message finds its receiver.
    struct Address {
        std::optional<i64> from, to, tag, reader;
        auto operator<=>(const Address&) const = default;
    };
    static Address address_of(const Op& op);
    bool add(const Graph& from, const Graph& to, const Op& a, const Op& b);

    std::map<int, int> block_, stage_;
    std::map<Address, Address> address_;
    std::map<std::string, Value> given_; ///< values of `to` that no op computes, by their name in `from`
};

} // namespace trivium
