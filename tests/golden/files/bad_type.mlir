module {
  func.func @main(%arg0: tensor<4x8xq7>) -> tensor<4x8xf32> {
    return %arg0 : tensor<4x8xf32>
  }
}
