func.func @main(%a: tensor<8x5xf32>, %x: tensor<8x5xf32>, %h: tensor<8xf32>, %n: tensor<729xi32>) -> tensor<8x5xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = chlo.scan(%n) inits (%c) dimension=0  attributes {is_associative = true, is_reverse = false} {
  ^bb0(%input: tensor<i32>, %carry: tensor<i32>):
    %3 = stablehlo.add %input, %carry : tensor<i32>
    stablehlo.return %3, %3 : tensor<i32>, tensor<i32>
  } : (tensor<729xi32>, tensor<i32>) -> (tensor<729xi32>, tensor<i32>)
  %1:2 = chlo.scan(%a, %x) inits (%h) dimension=1  attributes {is_associative = false, is_reverse = true} {
  ^bb0(%p: tensor<8xf32>, %q: tensor<8xf32>, %s: tensor<8xf32>):
    %4 = stablehlo.multiply %p, %s : tensor<8xf32>
    %5 = stablehlo.add %4, %q : tensor<8xf32>
    stablehlo.return %5, %5 : tensor<8xf32>, tensor<8xf32>
  } : (tensor<8x5xf32>, tensor<8x5xf32>, tensor<8xf32>) -> (tensor<8x5xf32>, tensor<8xf32>)
  return %1#0 : tensor<8x5xf32>
}
