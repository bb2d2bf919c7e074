#pragma once

#include <fmt/format.h>

#include <string>

namespace orrery {

/// A StableHLO module of `layers` transformer-like layers, 17 operations each, as
/// JAX writes them: the same mix of types, attributes and names as real exports.
inline std::string layered_module(int layers) {
  std::string text =
      "module @jit_layers attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} "
      "{\n"
      "  func.func public @main(%arg0: tensor<1x512x4096xbf16>, %arg1: tensor<4096xbf16>, "
      "%arg2: tensor<4096x11008xbf16>, %arg3: tensor<11008x4096xbf16>) -> (tensor<1x512x4096xbf16> "
      "{jax.result_info = \"result\"}) {\n";
  int next = 0;
  const auto line = [&](const std::string& rest) {
    text += fmt::format("    %{} = {}\n", next, rest);
    return fmt::format("%{}", next++);
  };
  std::string x = "%arg0";
  for (int i = 0; i < layers; ++i) {
    const std::string f32 = "tensor<1x512x4096xf32>";
    const auto up =
        line(fmt::format("stablehlo.convert {} : (tensor<1x512x4096xbf16>) -> {}", x, f32));
    const auto square = line(fmt::format("stablehlo.multiply {0}, {0} : {1}", up, f32));
    text += fmt::format("    %cst_{} = stablehlo.constant dense<0.000000e+00> : tensor<f32>\n", i);
    const auto sum =
        line(fmt::format("stablehlo.reduce({} init: %cst_{}) applies stablehlo.add across "
                         "dimensions = [2] : ({}, tensor<f32>) -> "
                         "tensor<1x512xf32>",
                         square, i, f32));
    const auto wide = line(fmt::format(
        "stablehlo.broadcast_in_dim {}, dims = [0, 1] : (tensor<1x512xf32>) -> tensor<1x512x1xf32>",
        sum));
    const auto root = line(fmt::format("stablehlo.rsqrt {} : tensor<1x512x1xf32>", wide));
    const auto spread = line(
        fmt::format("stablehlo.broadcast_in_dim {}, dims = [0, 1, 2] : (tensor<1x512x1xf32>) -> {}",
                    root, f32));
    const auto scaled = line(fmt::format("stablehlo.multiply {}, {} : {}", up, spread, f32));
    const auto down =
        line(fmt::format("stablehlo.convert {} : ({}) -> tensor<1x512x4096xbf16>", scaled, f32));
    const auto weight = line(
        "stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<4096xbf16>) -> "
        "tensor<1x512x4096xbf16>");
    const auto normed =
        line(fmt::format("stablehlo.multiply {}, {} : tensor<1x512x4096xbf16>", down, weight));
    const auto hidden = line(fmt::format(
        "stablehlo.dot_general {}, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, "
        "DEFAULT] : "
        "(tensor<1x512x4096xbf16>, tensor<4096x11008xbf16>) -> tensor<1x512x11008xbf16>",
        normed));
    const auto negative =
        line(fmt::format("stablehlo.negate {} : tensor<1x512x11008xbf16>", hidden));
    const auto exponential =
        line(fmt::format("stablehlo.exponential {} : tensor<1x512x11008xbf16>", negative));
    const auto gated = line(
        fmt::format("stablehlo.multiply {}, {} : tensor<1x512x11008xbf16>", hidden, exponential));
    const auto out = line(fmt::format(
        "stablehlo.dot_general {}, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, "
        "DEFAULT] : "
        "(tensor<1x512x11008xbf16>, tensor<11008x4096xbf16>) -> tensor<1x512x4096xbf16>",
        gated));
    x = line(fmt::format("stablehlo.add {}, {} : tensor<1x512x4096xbf16>", x, out));
  }
  return text + fmt::format("    return {} : tensor<1x512x4096xbf16>\n  }}\n}}\n", x);
}

}  // namespace orrery
