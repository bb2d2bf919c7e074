module @m attributes {mhlo.num_partitions = 8 : i32} {
sdy.mesh @mesh = <["data"=2, "model"=4]>
func.func private @f(%x: tensor<16x64xf32>) -> tensor<16x64xf32> {
  %0 = stablehlo.tanh %x : tensor<16x64xf32>
  return %0 : tensor<16x64xf32>
}
func.func @main(%a: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %b: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %c: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> (tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x64xf32>) {
  %0 = call @f(%a) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  %1 = call @f(%b) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  %2 = call @f(%c) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  return %0, %1, %2 : tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x64xf32>
}
}
