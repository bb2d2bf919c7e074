#include <numeric>

#include "orrery/cluster/training/layer_builder.h"

namespace orrery {

// PyTorch 2.6's operators as modules call them: nn.RMSNorm, which is a composition of operators
// there (aten/src/ATen/native/layer_norm.cpp), rotary positions as products of complex numbers,
// keys and values repeated for each head (Llama's reference and torchtitan's model.py), and what
// autograd runs for each. Bytes are those of an element: 2 of 16 bits, 4 of 32.

void LayerBuilder::loops(Pass& pass, double elements, std::initializer_list<Moved> each) const {
  for (const Moved& moved : each) add(pass, bytes_loop(elements, moved.read, moved.written), 1, 1);
}

void LayerBuilder::eager_norm_forward(double elements) {
  // To 32 bits, squares, their means, times the root's inverse, times the scale, back.
  loops(work_.forward, elements, {{2, 4}, {4, 4}, {4, 0}, {4, 4}, {4, 4}, {4, 2}});
}

void LayerBuilder::eager_norm_backward(double elements) {
  loops(work_.backward, elements,
        {{2, 4},  // to 32 bits
         {4, 4},
         {8, 4},
         {4, 0},  // of what is scaled, of the scale, summed
         {4, 4},
         {8, 4},
         {4, 0},  // of what is multiplied by the root's inverse, of that, summed
         {4, 4},
         {4, 4},
         {4, 4},  // of squares: x to the first power, twice that, times the mean's
         {8, 4},
         {4, 2}});  // both gradients of x, in 16 bits
}

void LayerBuilder::eager_rotary(double elements) {
  for (Pass* pass : {&work_.forward, &work_.backward})
    loops(*pass, elements, {{2, 4}, {4, 4}, {4, 2}});
}

void LayerBuilder::repeat_heads(double elements, double repeats) {
  loops(work_.forward, elements, {{2 / repeats, 2}});
  loops(work_.backward, elements, {{2, 2 / repeats}});
}

void LayerBuilder::eager_gate_forward(double elements) {
  loops(work_.forward, elements, {{2, 2}, {4, 2}});
}

void LayerBuilder::eager_gate_backward(double elements) {
  loops(work_.backward, elements, {{4, 2}, {4, 2}, {4, 2}});
}

void LayerBuilder::linears(std::initializer_list<int64_t> widths, bool bias) {
  if (!s_.eager) {
    next_product_is(widths);
    return linear(tokens_, std::accumulate(widths.begin(), widths.end(), int64_t{0}), model_.hidden,
                  bias);
  }
  for (const int64_t width : widths) linear(tokens_, width, model_.hidden, bias);
  // Gradients of their one input meet.
  for (size_t i = 1; i < widths.size(); ++i)
    backward(elementwise(tokens() * static_cast<double>(model_.hidden), 3));
}

void LayerBuilder::eager_loss(double logits) {
  // To 32 bits and their softmax's logarithm; zeros for the gradient of the chosen, those of the
  // logarithm and back to 16 bits.
  loops(work_.forward, logits, {{2, 4}, {8, 4}});
  loops(work_.backward, logits, {{0, 4}, {8, 4}, {4, 2}});
}

}  // namespace orrery
