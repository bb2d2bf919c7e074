// Fourier transforms and the windows and filters around them.
#include <algorithm>

#include "orrery/workload/readers/onnx/operator.h"

namespace orrery::onnx {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

ElementType complex_of(NodeContext& c, ElementType element) {
  if (element == ElementType::kF64) return ElementType::kC128;
  if (!is_float(element)) c.fail("a floating-point signal is expected");
  return ElementType::kC64;
}

ValueId fft(NodeContext& c, ValueId x, const Dims& dims, int64_t length) {
  // Real and imaginary parts are the last dimension of ONNX's tensors.
  return c.emit(Opcode::k_fft, {x}, c.element_of(x), dims,
                [&](WorkloadBuilder& b) { b.set_ints(Attr::kLength, {length}); });
}

void discrete_fourier(NodeContext& c) {
  c.expect_rank(0, 2);
  complex_of(c, c.element(0));
  int64_t axis = c.integer("axis", 1);
  if (c.version() >= 20) {
    axis = -2;
    if (c.has_input(2)) {
      const Dims given = c.integers(2, "the axis");
      if (given.size() != 1) c.fail("the axis must be one number");
      axis = given[0];
    }
  }
  axis = c.axis(axis, c.rank(0));
  if (at(axis) + 1 == c.rank(0)) c.fail("the last dimension holds real and imaginary parts");
  Dims dims = c.dims(0);
  int64_t length = dims[at(axis)];
  if (c.has_input(1)) {
    const Dims given = c.integers(1, "the length");
    if (given.size() != 1) c.fail("the length must be one number");
    length = given[0];
  }
  if (length <= 0) c.fail("an empty transform");
  const bool onesided = c.integer("onesided", 0) != 0, inverse = c.integer("inverse", 0) != 0;
  dims[at(axis)] = onesided && !inverse ? length / 2 + 1 : length;
  dims.back() = onesided && inverse ? 1 : 2;
  c.set(0, fft(c, c.operand(0), dims, length));
}

void short_time_fourier(NodeContext& c) {
  c.expect_inputs(2);
  c.expect_rank(0, 2);
  complex_of(c, c.element(0));
  const Dims step = c.integers(1, "the frame step");
  int64_t length = 0;
  if (c.has_input(3)) {
    const Dims given = c.integers(3, "the frame length");
    if (given.size() != 1) c.fail("the frame length must be one number");
    length = given[0];
  } else if (c.has_input(2)) {
    length = c.product(c.dims(2));
  } else {
    c.fail("neither a window nor a frame length is given");
  }
  const int64_t samples = c.dims(0)[1];
  if (step.size() != 1 || step[0] <= 0 || length <= 0 || length > samples)
    c.fail("frames do not fit the signal");
  const int64_t frames = (samples - length) / step[0] + 1;
  const bool onesided = c.integer("onesided", 1) != 0;
  const ElementType element = c.element(0);
  ValueId framed = c.emit(Opcode::k_gather, {c.operand(0)}, element, {c.dims(0)[0], frames, length},
                          [&](WorkloadBuilder& b) {
                            Dims sizes(c.rank(0), 1);
                            sizes[1] = length;
                            b.set_ints(Attr::kSliceSizes, sizes);
                          });
  if (c.has_input(2)) framed = c.elementwise(Opcode::k_multiply, {framed, c.operand(2)});
  c.set(0, fft(c, framed, {c.dims(0)[0], frames, onesided ? length / 2 + 1 : length, 2}, length));
}

/// a0 − a1·cos(2πi/n) + a2·cos(4πi/n), of which Hann and Hamming have two terms.
void cosine_window(NodeContext& c, double a0, double a1, double a2) {
  const Dims size = c.integers(0, "the size");
  if (size.size() != 1) c.fail("the size must be one number");
  const ElementType element = c.data_type(c.integer("output_datatype", 1));
  constexpr double kTwoPi = 6.283185307179586;
  const ValueId i = c.iota(element, size, 0);
  const double period = static_cast<double>(std::max<int64_t>(1, size[0]));
  const auto term = [&](double factor, double turns) {
    const ValueId angle =
        c.elementwise(Opcode::k_multiply, {i, c.number(element, turns * kTwoPi / period)});
    const ValueId wave = c.elementwise(Opcode::k_cosine, {angle});
    return c.elementwise(Opcode::k_multiply, {wave, c.number(element, factor)});
  };
  ValueId window = c.elementwise(Opcode::k_subtract, {term(a1, 1), c.number(element, a0)});
  if (a2 != 0) window = c.elementwise(Opcode::k_add, {window, term(a2, 2)});
  c.set(0, window);
}

// Coefficients as the operators' specification gives them.
void hann_window(NodeContext& c) { cosine_window(c, 0.5, 0.5, 0); }
void hamming_window(NodeContext& c) { cosine_window(c, 25.0 / 46, 21.0 / 46, 0); }
void blackman_window(NodeContext& c) { cosine_window(c, 0.42, 0.5, 0.08); }

/// Triangular filters; small, made once.
void mel_weight_matrix(NodeContext& c) {
  const Dims bins = c.integers(0, "the number of mel bins"),
             length = c.integers(1, "the DFT length");
  if (bins.size() != 1 || length.size() != 1 || bins[0] < 0 || length[0] < 0)
    c.fail("one number of bins and one length are expected");
  const ElementType element = c.data_type(c.integer("output_datatype", 1));
  const ValueId rows = c.iota(element, {length[0] / 2 + 1, 1}, 0);
  const ValueId columns = c.iota(element, {1, bins[0]}, 1);
  const ValueId slope = c.elementwise(Opcode::k_subtract, {rows, columns});
  c.set(0, c.elementwise(Opcode::k_maximum, {slope, c.number(element, 0)}));
}

constexpr OperatorRule kRules[] = {
    {"BlackmanWindow", blackman_window},    {"DFT", discrete_fourier},
    {"HammingWindow", hamming_window},      {"HannWindow", hann_window},
    {"MelWeightMatrix", mel_weight_matrix}, {"STFT", short_time_fourier},
};

}  // namespace

std::span<const OperatorRule> signal_rules() { return kRules; }

}  // namespace orrery::onnx
