#pragma once
// Passes are generic: they name no op, no model family and no preset.
#include "source_text.hpp"

namespace trivium::structure {

struct ForbiddenNames {
    std::vector<std::string> ops;    ///< names of the op table
    std::vector<std::string> common; ///< those that are common words: forbidden only as "quoted names"
    std::vector<std::string> models; ///< families and presets
};

/// Places in `files`, except comments, that name an op (also OpKind::x and find_op) or a model (also
/// Family::x).
Findings check_names(const std::vector<SourceFile>& files, const ForbiddenNames& names);

} // namespace trivium::structure
