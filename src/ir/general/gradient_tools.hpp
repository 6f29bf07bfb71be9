#pragma once
// Internal: helpers of the files *_gradients.cpp.
#include "ir/builder.hpp"
#include "ir/general/general_gradients.hpp"
#include "ir/general/op_view.hpp"

namespace trivium::gradients {

using A = Attr;
using K = OpKind;
using Numbers = std::vector<i64>;

inline TensorType type_of(Tape& t, ValueId id) { return t.build().graph()[id].type; }
inline Shape shape_of(Tape& t, ValueId id) { return t.build().graph()[id].type.shape; }
inline OpView view(Tape& t) { return {t.build().graph(), t.op()}; }

inline ValueId zeros(Tape& t, const TensorType& type)
{
    return t.build().op1(K::constant, {},
                         {.dtype = type.dtype, .value = 0.0, .lists = {{A::shape, type.shape}}});
}

/// The lists of `op` with these names.
inline NumberLists lists_of(const Op& op, std::initializer_list<Attr> names)
{
    NumberLists lists;
    for (const Attr name : names)
        if (const Numbers* numbers = op.attrs->lists.find(name))
            lists.set(name, *numbers);
    return lists;
}

} // namespace trivium::gradients
