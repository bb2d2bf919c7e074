module @m attributes {mhlo.num_partitions = 8 : i32} {
func.func @main(%t: tensor<1000x64xf32> {mhlo.sharding = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, %i: tensor<8x16x1xi32> {mhlo.sharding = "{devices=[8,1,1]<=[8]}"}) -> tensor<8x64xf32> {
%0 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 64>}> : (tensor<1000x64xf32>, tensor<8x16x1xi32>) -> tensor<8x16x64xf32>
%c = stablehlo.constant dense<0.0> : tensor<f32>
%1 = stablehlo.reduce(%0 init: %c) applies stablehlo.add across dimensions = [1] : (tensor<8x16x64xf32>, tensor<f32>) -> tensor<8x64xf32>
%2 = stablehlo.reshape %1 : (tensor<8x64xf32>) -> tensor<2x4x8x8xf32>
%3 = stablehlo.transpose %2, dims = [1, 0, 3, 2] : (tensor<2x4x8x8xf32>) -> tensor<4x2x8x8xf32>
%4 = stablehlo.reshape %3 : (tensor<4x2x8x8xf32>) -> tensor<8x64xf32>
%5 = stablehlo.slice %4 [0:4, 0:64] : (tensor<8x64xf32>) -> tensor<4x64xf32>
%6 = stablehlo.concatenate %5, %5, dim = 0 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<8x64xf32>
%7 = stablehlo.custom_call @Sharding(%6) {mhlo.sharding = "{devices=[1,8]<=[8]}"} : (tensor<8x64xf32>) -> tensor<8x64xf32>
return %7 : tensor<8x64xf32>
}
}
