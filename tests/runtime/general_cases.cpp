#include "general_cases.hpp"

#include "base/check.hpp"
#include "catch.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>

namespace trivium::runs {

namespace {

std::vector<Array> contents(const OpCase& c, DType type, unsigned seed)
{
    Random random(seed);
    std::vector<Array> all;
    for (const In& in : c.in) {
        Array array{{in.index ? DType::i32 : type, in.shape}, in.cells};
        while (static_cast<i64>(array.cells.size()) < array.type.elements())
            array.cells.push_back(static_cast<double>(random.from(in.low, in.high)));
        for (double& cell : array.cells)
            cell = array.type.dtype == DType::i32 ? cell : rounded(cell, array.type.dtype);
        all.push_back(std::move(array));
    }
    return all;
}

/// Appends a JSON line to the file that TRIVIUM_GENERAL_OPS names, for general_op_check.py.
void record(OpKind kind, const Attributes& attrs, const std::vector<Array>& operands,
            const std::vector<Array>& results)
{
    const char* path = std::getenv("TRIVIUM_GENERAL_OPS");
    if (!path)
        return;
    std::ofstream out(path, std::ios::app);
    out.precision(17);
    const auto list = [&](const auto& numbers) {
        out << '[';
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            out << (i ? "," : "");
            if (const auto number = static_cast<double>(numbers[i]); std::isfinite(number))
                out << number;
            else
                out << (std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity");
        }
        out << ']';
    };
    const auto arrays = [&](const char* name, const std::vector<Array>& all) {
        out << ", \"" << name << "\": [";
        for (std::size_t i = 0; i < all.size(); ++i) {
            out << (i ? ", " : "") << "{\"type\": \"" << name_of(all[i].type.dtype) << "\", \"shape\": ";
            list(all[i].type.shape);
            out << ", \"cells\": ";
            list(all[i].cells);
            out << '}';
        }
        out << ']';
    };
    out << "{\"op\": \"" << info(kind).name << "\"";
    for (const NumberLists::Entry& entry : attrs.lists.entries()) {
        const auto* name = std::find_if(std::begin(list_names), std::end(list_names),
                                        [&](const ListName& l) { return l.attr == entry.attr; });
        out << ", \"" << name->name << "\": ";
        list(entry.numbers);
    }
    if (attrs.combine)
        out << ", \"combine\": \"" << name_of(*attrs.combine) << "\"";
    if (attrs.direction)
        out << ", \"direction\": \"" << *attrs.direction << "\"";
    if (attrs.value)
        out << ", \"value\": " << *attrs.value;
    arrays("operands", operands);
    arrays("results", results);
    out << "}\n";
}

} // namespace

bool check(const OpCase& c, unsigned seed, double tolerance, bool in_parts)
{
    for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::i32}) {
        if (type == DType::i32 && c.real)
            continue;
        INFO(c.name << " of " << name_of(type) << ", seed " << seed);
        Attributes attrs = c.attrs;
        if (c.in.empty())
            attrs.dtype = type;
        const std::vector<Array> operands = contents(c, type, seed);
        std::vector<Array> made;
        try {
            made = run_op(c.kind, attrs, operands);
        } catch (const UserError&) {
            return false;
        }
        if (type == DType::f64)
            record(c.kind, attrs, operands, made);
        std::vector<TensorType> types;
        for (const Array& array : made)
            types.push_back(array.type);
        const std::vector<Array> expected = naive_op(c.kind, attrs, operands, types);
        for (std::size_t r = 0; r < made.size(); ++r) {
            INFO("result " << r);
            check_equal(made[r], expected[r], type == DType::bf16 ? 10 * tolerance : tolerance);
        }
        if (in_parts && (type == DType::f64 || type == DType::i32))
            check_parts(c.kind, attrs, operands, made);
    }
    return true;
}

void check_all(const std::vector<OpCase>& cases, double tolerance)
{
    unsigned seed = 1;
    for (const OpCase& c : cases) {
        INFO(c.name);
        CHECK(check(c, seed++, tolerance));
    }
}

void check_random(int count, const std::function<OpCase(Random&)>& make)
{
    count = contracts_on ? (count + 4) / 5 : count; // sanitizers take their time
    int done = 0;
    for (unsigned seed = 1; done < count && seed < 50U * static_cast<unsigned>(count); ++seed) {
        Random random(seed);
        done += check(make(random), seed) ? 1 : 0;
    }
    CHECK(done == count);
}

Shape random_shape(Random& random, std::size_t rank, i64 most) { return random.list(rank, 1, most); }

} // namespace trivium::runs
