#pragma once
// Internal: neighbouring Steps of element-wise ops, which the host computes tile by tile, so that what they
// pass on stays in the caches.
#include "runtime/elements.hpp"
#include "runtime/runner.hpp"

namespace trivium {

/// Consecutive Steps over the same number of elements. Each tile of elements passes through all of them, by
/// one thread. A value that only these Steps read has no more of its buffer written than a tile for each
/// thread. The bits are those of the Steps one by one.
class ElementRun {
public:
    std::size_t steps() const { return members_.size(); }
    void operator()(const kernels::Exec& exec) const;

    /// Adds Step `index`, which follows the last one, if it fits. An unsuitable one leaves the run as it is.
    bool add(const BoundSchedule& bound, std::size_t index);
    /// Decides which values stay in tiles; once, after the last add(). `uses`: uses_of() the graph.
    void finish(const BoundSchedule& bound, const std::vector<int>& uses);

private:
    /// What of a tensor a tile touches: its elements, or all of a tensor that is spread.
    struct Place {
        std::byte* at = nullptr;
        Bytes bytes = 0, element = 0; ///< of all; of one, 0: all of it is read
        bool stays = false;           ///< in the first tile of the thread

        bool meets(const Place& other) const { return at < other.at + other.bytes && other.at < at + bytes; }
        bool conflicts(const Place& other) const;
    };
    struct Member {
        std::size_t index;
        ElementCall call;
        std::vector<Place> in;
        Place out;
        ValueId result;
    };
    void run_tiles(i64 first, i64 end) const;

    i64 n_ = 0;
    i64 microbatch_ = -1;
    std::vector<Member> members_;
    std::function<void(i64, i64)> part_; ///< run_tiles(): made once, because a Step may not allocate
};

/// The runs of at least two Steps, by their first Step.
std::vector<std::unique_ptr<ElementRun>> find_element_runs(const BoundSchedule& bound);

} // namespace trivium
