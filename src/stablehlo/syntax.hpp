#pragma once
// What a StableHLO text says, without its meaning: functions of ops with operands, attributes and regions.
//
// parse_hlo() reads MLIR's generic form and the pretty forms of the dialects func, stablehlo, chlo and sdy
// that JAX and PyTorch/XLA print. Pretty forms become the same HloOp as generic ones, except that some
// attributes keep the name that the pretty form has (`dims`, `sizes`, …).
#include "base/units.hpp"
#include "ir/type.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

/// Element types that a tensor of the text may have; i1 to i64 and u8 to u64 are integers.
enum class HloElement { f64, f32, bf16, i1, i8, i16, i32, i64, u8, u16, u32, u64 };

struct HloType {
    HloElement element = HloElement::f32;
    Shape shape;
    std::string refused{}; ///< the type's text, if it is not such a tensor
    bool operator==(const HloType&) const = default;
};

/// A constant. One element stands for all if `splat`; `reals` has those of floating types, `ints` the others.
struct HloLiteral {
    HloType type;
    bool splat = false;
    std::vector<double> reals{};
    std::vector<i64> ints{};
};

/// An attribute's value. A dictionary has a name per item; a list has none.
struct HloAttribute {
    enum class Kind { word, number, text, list, dictionary, literal, raw };
    Kind kind = Kind::word;
    std::string text{}; ///< of a word, symbol or string; of `raw`, what is between < and >
    i64 number = 0;     ///< of an integer; 1 of `true`
    std::vector<std::string> names{};
    std::vector<HloAttribute> items{};
    HloLiteral literal{};

    const HloAttribute* find(std::string_view name) const;
};

struct HloArgument {
    std::string name; ///< "%arg0"
    HloType type;
    HloAttribute attributes{};
    std::string location{}; ///< the text of loc(…)
};

struct HloOp;

struct HloRegion {
    std::vector<HloArgument> arguments;
    std::vector<HloOp> ops;
};

struct HloOp {
    std::string name; ///< "stablehlo.add"
    int line = 0;
    std::vector<std::string> results{};  ///< "%0", or "%0#0", "%0#1", …
    std::vector<std::string> operands{}; ///< "%0" or "%0#1"
    HloAttribute attributes{};
    std::vector<HloRegion> regions{};
    std::vector<HloType> result_types{};
};

struct HloFunction {
    std::string name;
    int line = 0;
    bool is_public = false;
    HloRegion body;
    std::vector<HloType> result_types;
    std::vector<HloAttribute> result_attributes;
};

struct HloModule {
    std::string name;
    std::vector<HloFunction> functions;
    std::map<std::string, HloAttribute> meshes;   ///< of sdy, by name: what is between < and >
    std::map<std::string, std::string> aliases{}; ///< "#loc1": its text
    std::vector<std::string> device_shardings{};  ///< every mhlo.sharding
};

/// Throws UserError with file and line if the text violates the grammar or exceeds ir/limits.hpp.
HloModule parse_hlo(std::string_view text, const std::string& file);

bool is_real(HloElement element);
const char* hlo_name_of(HloElement element); ///< "ui32"
std::optional<HloElement> hlo_element_named(std::string_view name);
std::string to_string(const HloType& type);
/// The number of elements, at most max_elements. \pre the type is not refused
inline i64 elements_of(const HloType& type) { return element_count(type.shape); }
/// Wraps to the range of an integer type.
i64 wrapped(HloElement element, i64 number);

} // namespace trivium
