module @m attributes {mhlo.num_partitions = 8 : i32} {
sdy.mesh @mesh = <["data"=2, "model"=4]>
func.func @main(%x: tensor<16x8x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}, {?}p1]>}, %g: tensor<16x8x8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}, {"model":(1)2}]>}) -> (tensor<3x3x4x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"model"}, {}], replicated={"data"}>}) {
%0 = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<16x8x8x4xf32>, tensor<16x8x8x32xf32>) -> tensor<3x3x4x32xf32>
return %0 : tensor<3x3x4x32xf32>
}
}
