#pragma once
// The gradient column of the op table.
#include "ir/op_table.hpp"

namespace trivium::gradients {

void matmul(Tape&);
void embedding(Tape&);
void rms_norm(Tape&);
void layer_norm(Tape&);
void rope(Tape&);
void attention(Tape&);
void swiglu(Tape&);
void gelu(Tape&);
void add(Tape&);
void bias_add(Tape&);
void cast(Tape&);
void reshard(Tape&);
void xent_stats(Tape&);
void token_loss(Tape&);

} // namespace trivium::gradients
