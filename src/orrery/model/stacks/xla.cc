#include "orrery/model/stack.h"

namespace orrery {
namespace {

class Xla final : public Stack {
 public:
  std::string name() const override { return "xla"; }
  FusionRules rules() const override {
    return {.elementwise = true,
            .into_reductions = true,
            .duplicate_cheap = true,
            .by_priority = true,
            .broadcasts_are_views = false,
            .transposes_fold_into_dots = true,
            .arguments_are_immutable = true,
            .inline_small_calls = true,
            .fewest_in_graph = 5,
            .compiled = true,
            .single_precision_as_tf32 = true,
            .plans_memory = true,
            .simplify = true,
            .layouts = true,
            .expand_grouped_products = true,
            .merge_products = true,
            .vector_products = true,
            .split_products = true,
            .scatter_into_sums = true,
            .expand_window_gradients = true,
            .split_reductions = true,
            .normalizations = true,
            .product_prologues = true,
            .product_epilogues = true,
            .multi_output = true};
  }
};

const Registration<Stack> kXla({.name = "xla",
                                .summary = "kernels as XLA's GPU passes form them: what is read "
                                           "again is stored or computed again by cost, rows are "
                                           "normalised in one kernel, products merged, split and "
                                           "joined with what stands around them, siblings of one "
                                           "tensor joined; fp32 products run in TF32",
                                .source = "XLA 0.11 GPU passes in outline, its priority fusion by "
                                          "its own cost model; kernels compared with the optimised "
                                          "HLO of 49 programs on the H200 "
                                          "(tools/validation/lowering_against_hlo.py)",
                                .parameters = {}},
                               [] { return std::make_unique<Xla>(); });

}  // namespace
}  // namespace orrery
