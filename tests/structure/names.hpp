#pragma once
// Passes are generic: none of them names an op, a model family or a preset.
#include "source_text.hpp"

namespace trivium::structure {

struct ForbiddenNames {
    std::vector<std::string> ops; ///< names of the op table
    std::vector<std::string>
        common; ///< those of them that are everyday words: forbidden as "quoted names" only
    std::vector<std::string> models; ///< families and presets
};

/// Places in `files`, comments aside, that name an op (also OpKind::x and find_op) or a model (also
/// Family::x).
Findings check_names(const std::vector<SourceFile>& files, const ForbiddenNames& names);

} // namespace trivium::structure
