#pragma once
// `trivium data tokenizer | tokenize | show`.
#include "train/command_line.hpp"

namespace trivium {

/// Adds the sub-command `data` with its own sub-commands.
void add_data_command(Command& program);

} // namespace trivium
