#d = array<i64: 1, 0>
!q = !quant.uniform<i8:f32, 0.5:-3>
module @m attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4], device_ids=[1, 0, 2, 3, 4, 5, 6, 7]>
  func.func public @main(%t: tensor<100x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>, jax.buffer_donor = true}, %i: tensor<8x1xi32>, %u: tensor<8x16xf32> {mhlo.sharding = "{replicated}"}, %v: tensor<?x!q, #stablehlo.bounds<8>>) -> (tensor<100x16xf32> {jax.result_info = "r"}) {
    %0 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 16>}> : (tensor<100x16xf32>, tensor<8x1xi32>) -> tensor<8x16xf32> loc("g"(#l))
    %1 = "stablehlo.scatter"(%t, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      stablehlo.return %r : tensor<f32>
    }) : (tensor<100x16xf32>, tensor<8x1xi32>, tensor<8x16xf32>) -> tensor<100x16xf32>
    %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "y", sub_axis_info = (2)2>]>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %3 = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }) : (tensor<100x16xf32>) -> tensor<100x16xf32>
    %4 = sdy.sharding_constraint %2 <@mesh, [{"x", "y"}, {}]> : tensor<100x16xf32>
    %5 = "stablehlo.transpose"(%4) <{permutation = #d}> : (tensor<100x16xf32>) -> tensor<16x100xf32>
    %6:2 = stablehlo.custom_call @mhlo.topk(%5) {mhlo.attributes = {k = 4 : i64, largest = true}} : (tensor<16x100xf32>) -> (tensor<16x4xf32>, tensor<16x4xi32>)
    %7 = stablehlo.composite "my.gelu" %4 {composite_attributes = {a = "b"}, decomposition = @gelu} : (tensor<100x16xf32>) -> tensor<100x16xf32>
    return %7 : tensor<100x16xf32> loc(fused["a", callsite("b" at "c":1:2)])
  }
  func.func private @gelu(%x: tensor<100x16xf32>) -> tensor<100x16xf32> {
    %0 = stablehlo.tanh %x : tensor<100x16xf32>
    return %0 : tensor<100x16xf32>
  }
}
#l = loc("f.py":1:2)
