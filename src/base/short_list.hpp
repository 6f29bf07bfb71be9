#pragma once
// A vector of trivially copyable elements, of which a few need no memory of their own.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace trivium {

/// Up to `inside` elements are in the object, more of them on the heap. Schedules have millions of such
/// lists.
template <class T, std::uint32_t inside>
class ShortList {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) * inside >= sizeof(T*));

public:
    ShortList() = default;
    ShortList(std::initializer_list<T> list)
    {
        for (const T& each : list)
            push_back(each);
    }
    ShortList(const ShortList& other)
    {
        reserve(other.size_);
        std::copy(other.begin(), other.end(), begin());
        size_ = other.size_;
    }
    ShortList(ShortList&& other) noexcept { swap(other); }
    ShortList& operator=(ShortList other) noexcept
    {
        swap(other);
        return *this;
    }
    ~ShortList()
    {
        if (capacity_ > inside)
            delete[] data();
    }

    T* begin() { return data(); }
    T* end() { return data() + size_; }
    const T* begin() const { return data(); }
    const T* end() const { return data() + size_; }
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T& front() { return data()[0]; }
    const T& front() const { return data()[0]; }
    T& back() { return data()[size_ - 1]; }
    const T& back() const { return data()[size_ - 1]; }
    T& operator[](std::size_t i) { return data()[i]; }
    const T& operator[](std::size_t i) const { return data()[i]; }

    void push_back(const T& element)
    {
        const T copy = element; // it may be in this list
        if (size_ == capacity_)
            reserve(2 * size_);
        data()[size_++] = copy;
    }
    template <class... Parts>
    void emplace_back(Parts&&... parts)
    {
        push_back(T(std::forward<Parts>(parts)...));
    }
    void clear() { size_ = 0; }
    void reserve(std::size_t count)
    {
        if (count <= capacity_)
            return;
        T* const made = new T[count];
        std::copy(begin(), end(), made);
        if (capacity_ > inside)
            delete[] data();
        std::memcpy(bytes_, &made, sizeof made);
        capacity_ = static_cast<std::uint32_t>(count);
    }
    void swap(ShortList& other) noexcept
    {
        std::swap(bytes_, other.bytes_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }
    friend bool operator==(const ShortList& a, const ShortList& b) { return std::ranges::equal(a, b); }

private:
    T* data() { return const_cast<T*>(std::as_const(*this).data()); }
    const T* data() const
    {
        if (capacity_ <= inside)
            return reinterpret_cast<const T*>(bytes_);
        const T* made = nullptr;
        std::memcpy(&made, bytes_, sizeof made);
        return made;
    }

    alignas(T) alignas(T*) std::byte bytes_[sizeof(T) * inside] = {};
    std::uint32_t size_ = 0, capacity_ = inside;
};

} // namespace trivium
