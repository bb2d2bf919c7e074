#include "orrery/kernel/operator_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

std::string user_name(ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return "fp32";
    case ElementType::kTF32:
      return "tf32";
    case ElementType::kF16:
      return "fp16";
    case ElementType::kBF16:
      return "bf16";
    default:
      return std::string(mlir_name(type));
  }
}

/// Members of a JSON object; those of value 0 are left out.
class Members {
 public:
  Members& add(std::string_view name, double value) {
    if (value == 0) return *this;
    text_ += fmt::format("{}\"{}\": {:.0f}", text_.empty() ? "" : ", ", name, value);
    return *this;
  }
  Members& add(std::string_view name, int64_t value) {
    return add(name, static_cast<double>(value));
  }
  Members& text(std::string_view name, std::string_view value) {
    text_ += fmt::format("{}\"{}\": \"{}\"", text_.empty() ? "" : ", ", name, value);
    return *this;
  }
  std::string text() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

std::optional<OperatorText> product(const Kernel& kernel, const ProductShape& p) {
  const ElementType type = kernel.cost.matrix_type;
  if (kernel.code == Opcode::k_grouped_dot || p.scale_block > 0 ||
      (type != ElementType::kTF32 && p.weight != type) ||
      (type == ElementType::kTF32 && p.weight != ElementType::kF32))
    return std::nullopt;
  Members members;
  if (p.compiled || p.batch > 1) members.add("b", p.batch);
  members.add("m", p.m).add("n", p.n).add("k", p.k);
  if (!p.compiled)
    return OperatorText{p.batch > 1 ? "bmm" : "gemm", user_name(type), members.text()};
  const Cost& c = kernel.cost;
  members.add("read", c.bytes_read).add("written", c.bytes_written);
  members.add("flops", c.vector_flops).add("special", c.transcendental_flops);
  if (p.aligned < 16) members.add("aligned", static_cast<double>(p.aligned));
  return OperatorText{"fused_gemm", user_name(type), members.text()};
}

std::optional<OperatorText> convolution(const Kernel& kernel, const ConvolutionShape& s) {
  const auto padding = [&](int64_t size, int64_t window, int64_t out) {
    return std::max<int64_t>(0, (out - 1) * s.stride + window - size + 1) / 2;
  };
  // A dilated window, or padding of its own on either side, has no row.
  const auto size = [&](int64_t in, int64_t window, int64_t out) {
    return (in + 2 * padding(in, window, out) - window) / s.stride + 1 == out;
  };
  if (padding(s.height, s.window_height, s.out_height) !=
          padding(s.width, s.window_width, s.out_width) ||
      !size(s.height, s.window_height, s.out_height) ||
      !size(s.width, s.window_width, s.out_width) || s.channels % s.groups != 0 ||
      s.features % s.groups != 0)
    return std::nullopt;
  Members members;
  members.add("n", s.batch).add("c", s.channels).add("h", s.height).add("w", s.width);
  members.add("k", s.features).add("r", s.window_height).add("s", s.window_width);
  members.add("stride", s.stride).add("pad", padding(s.height, s.window_height, s.out_height));
  members.add("groups", s.groups);
  if (s.computes != ConvolutionShape::Computes::kOutput)
    members.text("gradient",
                 s.computes == ConvolutionShape::Computes::kInputGradient ? "input" : "filter");
  return OperatorText{"conv2d", user_name(kernel.cost.matrix_type), members.text()};
}

std::optional<OperatorText> attention(const Kernel& kernel, const AttentionShape& a) {
  if (kernel.code == Opcode::k_attention_backward || a.paged) return std::nullopt;
  Members members;
  members.add("b", a.batch).add("h", a.heads).add("kv", a.kv_heads).add("s", a.queries);
  members.add("t", a.keys).add("d", a.head).add("dv", a.value_head).add("window", a.window);
  members.add("causal", a.causal ? 1.0 : 0.0);
  return OperatorText{"sdpa", user_name(a.kv), members.text()};
}

std::optional<OperatorText> fusion(const Kernel& kernel, const FusionShape& f) {
  const Cost& c = kernel.cost;
  Members members;
  members.add("elements", f.elements).add("read", c.bytes_read).add("written", c.bytes_written);
  members.add("flops", c.vector_flops).add("special", c.transcendental_flops);
  members.add("operations", static_cast<double>(f.operations));
  members.add("inputs", static_cast<double>(f.inputs));
  members.add("outputs", static_cast<double>(f.outputs));
  if (f.columns > 1) {
    members.add("rows", f.rows).add("columns", f.columns).add("inner", f.inner);
    members.add("reductions", static_cast<double>(f.reductions));
  }
  members.add("pieces", static_cast<double>(f.pieces));
  members.add("run", f.run).add("does", static_cast<double>(f.does));
  return OperatorText{"fusion", user_name(kernel.tensors[0].element), members.text()};
}

}  // namespace

std::optional<OperatorText> operator_text(const Kernel& kernel) {
  if (const auto* p = std::get_if<ProductShape>(&kernel.shape)) return product(kernel, *p);
  if (const auto* c = std::get_if<ConvolutionShape>(&kernel.shape)) return convolution(kernel, *c);
  if (const auto* a = std::get_if<AttentionShape>(&kernel.shape)) return attention(kernel, *a);
  if (const auto* f = std::get_if<FusionShape>(&kernel.shape)) return fusion(kernel, *f);
  return std::nullopt;
}

}  // namespace orrery
