#pragma once
// Typed indices: a ValueId cannot be passed as an OpId.
#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>

namespace trivium {

/// Index of one kind of object (Tag). A default-constructed Id is not valid().
template <class Tag>
class Id {
public:
    constexpr Id() = default;
    constexpr explicit Id(std::size_t index) : index_(static_cast<std::uint32_t>(index)) {}
    constexpr std::size_t index() const { return index_; }
    constexpr bool valid() const { return index_ != none; }
    constexpr explicit operator bool() const { return valid(); }
    friend constexpr auto operator<=>(Id, Id) = default;
    friend std::ostream& operator<<(std::ostream& out, Id id) { return out << id.index_; }

private:
    static constexpr std::uint32_t none = 0xffffffffu;
    std::uint32_t index_ = none;
};

} // namespace trivium

template <class Tag>
struct std::hash<trivium::Id<Tag>> {
    std::size_t operator()(trivium::Id<Tag> id) const noexcept { return id.index(); }
};
