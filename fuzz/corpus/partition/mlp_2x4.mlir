module @mlp attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]>
  func.func public @main(%x: tensor<16x2048x4096xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}, %up: tensor<4096x14336xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %down: tensor<14336x4096xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}) -> tensor<16x2048x4096xbf16> {
    %0 = stablehlo.dot_general %x, %up, contracting_dims = [2] x [0] : (tensor<16x2048x4096xbf16>, tensor<4096x14336xbf16>) -> tensor<16x2048x14336xbf16>
    %1 = stablehlo.tanh %0 : tensor<16x2048x14336xbf16>
    %2 = stablehlo.dot_general %1, %down, contracting_dims = [2] x [0] : (tensor<16x2048x14336xbf16>, tensor<14336x4096xbf16>) -> tensor<16x2048x4096xbf16>
    %3 = stablehlo.add %x, %2 : tensor<16x2048x4096xbf16>
    return %3 : tensor<16x2048x4096xbf16>
  }
}
