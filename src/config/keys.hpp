#pragma once
// Each config struct lists its keys once, for parsing, printing, overriding and the reference page:
//
//   template <class Self, class Visit> static void keys(Self& self, Visit&& visit)
//   { visit("layers", self.layers, KeyKind::shape, "number of transformer blocks"); … }
//
// The C++ type of a key decides what it accepts: i64, double, bool, std::string, an enum with
// `names_of_enum`, a vector of these, RopeScaling, TrainingStores, ValidationStores, BatchRamp,
// NamedNumbers, ProgramAxes or LoraConfig.
#include "base/enum_names.hpp"
#include "base/words.hpp"

namespace trivium {

/// What a key of a run's config changes. Comparisons with a checkpoint's config, and messages about
/// changes, follow from it (train/data/inputs.hpp, train/save/config_changes.hpp).
enum class KeyKind {
    forward,  ///< the forward pass, but no shape: the value must be that of the checkpoint
    shape,    ///< shapes of parameters, by which a checkpoint is found not to fit
    training, ///< the weights from the step on at which the key changes
    rate,     ///< the weights as `training`, through the learning rate alone
    free,     ///< none of these, up to rounding: where and how the run computes
};

} // namespace trivium
