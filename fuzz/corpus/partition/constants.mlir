module @m attributes {mhlo.num_partitions = 8 : i32} {
sdy.mesh @mesh = <["data"=2, "model"=4]>
func.func @main(%a: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %b: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> (tensor<16x64xf32>, tensor<16x64xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %zs = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<16x64xf32>
  %0 = stablehlo.maximum %a, %zs : tensor<16x64xf32>
  %1 = stablehlo.maximum %b, %zs : tensor<16x64xf32>
  return %0, %1 : tensor<16x64xf32>, tensor<16x64xf32>
}
}
