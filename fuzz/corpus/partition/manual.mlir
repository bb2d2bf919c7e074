module @m attributes {mhlo.num_partitions = 8 : i32} {
sdy.mesh @mesh = <["data"=2, "model"=4]>
func.func @main(%x: tensor<16x64xf32>) -> tensor<16x64xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {"model"}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data", "model"} (%p: tensor<8x16xf32>) {
    %1 = "stablehlo.all_gather"(%p) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}> : (tensor<8x16xf32>) -> tensor<8x64xf32>
    sdy.return %1 : tensor<8x64xf32>
  } : (tensor<16x64xf32>) -> tensor<16x64xf32>
  %2 = stablehlo.tanh %0 : tensor<16x64xf32>
  return %2 : tensor<16x64xf32>
}
}
