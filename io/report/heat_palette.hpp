#pragma once
// The colours of numbers in pictures.
#include "io/report/png.hpp"

namespace trivium {

/// Colour 0 is grey, for what is not finite; the others rise evenly in lightness from blue to yellow.
const Palette& heat_palette();

} // namespace trivium
