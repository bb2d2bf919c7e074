func.func @main(%arg0: tensor<?x1024xbf16>, %arg1: tensor<1024x512xbf16>) -> tensor<?x512xbf16> {
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<?x1024xbf16>, tensor<1024x512xbf16>) -> tensor<?x512xbf16>
  return %0 : tensor<?x512xbf16>
}
