"""Writes mlp.onnx beside this file: a two-layer perceptron with an open batch size, its
weights as graph inputs. Encodes the few fields of ONNX's protocol buffers by hand
(onnx/onnx.proto), so that nothing but Python is needed."""

import pathlib

FLOAT = 1  # TensorProto.DataType
INT_ATTRIBUTE = 2  # AttributeProto.AttributeType


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    """One field: a number, a text, or a message's bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def value_info(name, dimensions):
    shape = b"".join(field(1, field(2 if isinstance(d, str) else 1, d)) for d in dimensions)
    return field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, shape)))


def node(operator, inputs, output, **attributes):
    data = b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, operator)
    for name, value in attributes.items():
        data += field(5, field(1, name) + field(3, value) + field(20, INT_ATTRIBUTE))
    return data


def main():
    nodes = [
        node("Gemm", ["x", "w1", "b1"], "hidden", transB=1),
        node("Relu", ["hidden"], "active"),
        node("Gemm", ["active", "w2", "b2"], "scores", transB=1),
        node("Softmax", ["scores"], "y", axis=1),
    ]
    inputs = [
        value_info("x", ["batch", 784]),
        value_info("w1", [512, 784]), value_info("b1", [512]),
        value_info("w2", [10, 512]), value_info("b2", [10]),
    ]
    graph = b"".join(field(1, data) for data in nodes) + field(2, "mlp")
    graph += b"".join(field(11, data) for data in inputs)
    graph += field(12, value_info("y", ["batch", 10]))
    model = field(1, 8) + field(2, "orrery examples/make_mlp.py") + field(7, graph)
    model += field(8, field(1, "") + field(2, 18))
    pathlib.Path(__file__).with_name("mlp.onnx").write_bytes(model)


if __name__ == "__main__":
    main()
