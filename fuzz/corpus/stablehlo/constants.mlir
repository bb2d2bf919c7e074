func.func @main(%a: tensor<4x8xf32>, %b: tensor<8xf32>) {
  %0 = stablehlo.constant dense<"0x0100000002000000"> : tensor<2xi32>
  %1 = stablehlo.constant dense<[(1.0, 2.0), (0x7F800000, 0.0)]> : tensor<2xcomplex<f32>>
  %2 = stablehlo.constant dense_resource<w> : tensor<4x4xf32>
  %3 = stablehlo.constant dense<0xFF80> : tensor<bf16>
  %4 = chlo.broadcast_add %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %values, %indices = chlo.top_k(%a, k = 2) : tensor<4x8xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)
  %5 = stablehlo.slice %a [0:2, 0:8:2] : (tensor<4x8xf32>) -> tensor<2x4xf32>
  %7 = stablehlo.constant dense<0.0> : tensor<f32>
  %6 = stablehlo.pad %a, %7, low = [1, -1], high = [0, 2], interior = [0, 1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<5x16xf32>
  return
}
{-#
  dialect_resources: { builtin: { w: "0x04000000000080BF" } }
#-}
