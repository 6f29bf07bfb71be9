#pragma once
// For dispatch: addresses, shapes and attributes of one op, with short names.
#include "base/activation.hpp"
#include "ir/ops/op_table.hpp"
#include "runtime/dispatch.hpp"

namespace trivium {

/// `i`: position of an operand; in out…(), of a result. The Binding must outlive it.
struct Args {
    const Binding& b;

    const TensorType& in_type(int i) const
    {
        return (*b.graph)[b.op->operands[static_cast<std::size_t>(i)]].type;
    }
    const TensorType& out_type(int i) const
    {
        return (*b.graph)[b.op->results[static_cast<std::size_t>(i)]].type;
    }
    const Shape& in_shape(int i) const { return in_type(i).shape; }
    const Shape& out_shape(int i) const { return out_type(i).shape; }
    i64 n(int i) const { return in_type(i).elements(); }
    /// The last extent; the product of the others. \pre not a scalar
    i64 last(int i) const { return in_type(i).shape.back(); }
    i64 rows(int i) const
    {
        const Shape& shape = in_type(i).shape; // not n(i) / last(i): an extent may be 0
        return element_count(Shape(shape.begin(), shape.end() - 1));
    }
    i64 dim(int i, int d) const { return in_type(i).shape[static_cast<std::size_t>(d)]; }
    template <class T>
    const T* in(int i) const
    {
        return static_cast<const T*>(b.operands[static_cast<std::size_t>(i)]);
    }
    /// Optional operand `which` of the row, or null.
    template <class T>
    const T* optional(int which) const
    {
        const int i = optional_operand(*b.graph, *b.op, which);
        return i < 0 ? nullptr : in<T>(i);
    }
    /// Elements between the rows of operand or result i; 0: dense.
    i64 in_row(int i) const { return row(b.operand_rows, i); }
    i64 out_row(int i) const { return row(b.result_rows, i); }
    static i64 row(const std::vector<i64>& rows, int i)
    {
        return rows.empty() ? 0 : rows[static_cast<std::size_t>(i)];
    }
    const std::int32_t* ids(int i) const { return in<std::int32_t>(i); }
    template <class T>
    T* out(int i) const
    {
        return static_cast<T*>(b.results[static_cast<std::size_t>(i)]);
    }
    const Attributes& attrs() const { return b.op->attrs; }
    /// The first token of this rank's shard of the vocabulary.
    i64 first_token() const { return attrs().offset_of("v"); }
    bool over() const { return b.overwrite; }
    kernels::Scratch scratch() const { return b.scratch; }

    const std::vector<i64>* find(Attr attr) const { return attrs().lists.find(attr); }
    /// The list, or `length` times `otherwise` if the op lacks it.
    std::vector<i64> list_or(Attr attr, std::size_t length, i64 otherwise) const
    {
        return find(attr) ? *find(attr) : std::vector<i64>(length, otherwise);
    }
    const std::vector<i64>& list(Attr attr) const { return *find(attr); }
    i64 number_or(Attr attr, i64 otherwise) const { return find(attr) ? find(attr)->at(0) : otherwise; }
};

/// The op's activation, or that of its name.
inline Activation activation_of(const Args& a, Activation usual)
{
    return a.attrs().activation ? *value_named<Activation>(*a.attrs().activation) : usual;
}

/// The call of a kernel. It contains copies of the arguments, so running it allocates nothing.
template <class Kernel, class... Arguments>
Call call_of(Kernel kernel, Arguments... arguments)
{
    return [=](const kernels::Exec& exec) { kernel(exec, arguments...); };
}

} // namespace trivium
