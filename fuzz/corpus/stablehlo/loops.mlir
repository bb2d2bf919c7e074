func.func @main(%x: tensor<100xf32>, %p: tensor<i1>) -> tensor<100xf32> {
  %0 = call @twice(%x) : (tensor<100xf32>) -> tensor<100xf32>
  %c = stablehlo.constant dense<0> : tensor<i32>
  %2:2 = stablehlo.while(%i = %c, %v = %0) : tensor<i32>, tensor<100xf32>
   cond {
    %n = stablehlo.constant dense<7> : tensor<i32>
    %t = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %u = func.call @twice(%v) : (tensor<100xf32>) -> tensor<100xf32>
    stablehlo.return %j, %u : tensor<i32>, tensor<100xf32>
  }
  %3 = "stablehlo.if"(%p) ({
    %4 = stablehlo.tanh %2#1 : tensor<100xf32>
    stablehlo.return %4 : tensor<100xf32>
  }, {
    stablehlo.return %2#1 : tensor<100xf32>
  }) : (tensor<i1>) -> tensor<100xf32>
  return %3 : tensor<100xf32>
}
func.func private @twice(%x: tensor<100xf32>) -> tensor<100xf32> {
  %0 = stablehlo.add %x, %x : tensor<100xf32>
  return %0 : tensor<100xf32>
}
