"""Writes mlp.mlir.bc beside this file: a two-layer perceptron as a portable StableHLO
artifact, what `jax.export` serialises. Encodes the few parts of MLIR's bytecode that it
takes by hand (mlir.llvm.org/docs/BytecodeFormat, VHLO 1.0), so that nothing but Python is
needed."""

import pathlib
import struct

BATCH, INPUTS, HIDDEN, OUTPUTS = 64, 784, 512, 10

# Codes of VHLO's types and attributes, and of the builtin dialect's location.
F32, FUNCTION, I64, TENSOR = 4, 8, 14, 20
ARRAY, STRING, ELEMENTS, TYPE = 1, 14, 15, 17
UNKNOWN_LOCATION = 15
# Parts an operation may have.
RESULTS, OPERANDS, REGIONS, PROPERTIES = 0x02, 0x04, 0x10, 0x40


def varint(value):
    """One to nine bytes: the zero bits at the end of the first say how many follow."""
    more = 0
    while more < 8 and value >> 7 * (more + 1):
        more += 1
    if more == 8:
        return b"\0" + value.to_bytes(8, "little")
    return ((value << 1 | 1) << more).to_bytes(more + 1, "little")


def varints(*values):
    return b"".join(varint(v) for v in values)


def numbered(values):
    return varint(len(values)) + varints(*values)


def section(kind, inside):
    return bytes([kind]) + varint(len(inside)) + inside


class Table(list):
    """Things that are named by their place."""

    def place(self, thing):
        if thing not in self:
            self.append(thing)
        return self.index(thing)


strings, operations, attributes, types, properties = Table(), Table(), Table(), Table(), Table()
BUILTIN, VHLO = strings.place("builtin"), strings.place("vhlo")


def operation_name(dialect, name):
    return operations.place((dialect, strings.place(name)))


def attribute(code, rest, dialect=VHLO):
    return attributes.place((dialect, varint(code) + rest))


def text(value):
    return attribute(STRING, varint(strings.place(value)))


def tensor_type(element, *sizes):
    shape = numbered([size << 1 for size in sizes])  # zigzag, none is negative
    return types.place((VHLO, varint(TENSOR) + shape + varint(element)))


def integers(*values):
    data = struct.pack(f"<{len(values)}q", *values)
    return attribute(ELEMENTS, varints(tensor_type(i64, len(values)), len(data)) + data)


def operation(name, settings=None, results=(), operands=(), region=None):
    parts = PROPERTIES * (settings is not None) | REGIONS * (region is not None)
    parts |= RESULTS * bool(results) | OPERANDS * bool(operands)
    code = varint(name) + bytes([parts]) + varint(location)
    if settings is not None:
        code += varint(properties.place(varints(*settings)))
    code += numbered(results) if results else b""
    code += numbered(operands) if operands else b""
    if region is not None:  # one, isolated, so in a section of its own
        code += varint(1 << 1 | 1) + section(4, region)
    return code


def block(values, arguments, body):
    """A region of one block; arguments without locations, uses in their natural order."""
    code = varints(1, values, len(body) << 1 | bool(arguments))
    if arguments:
        code += numbered([argument << 1 for argument in arguments]) + b"\0"
    return code + b"".join(body)


location = attribute(UNKNOWN_LOCATION, b"", BUILTIN)
f32, i64 = types.place((VHLO, varint(F32))), types.place((VHLO, varint(I64)))
MODULE = operation_name(BUILTIN, "module")
FUNC, RETURN, DOT, BROADCAST, ADD, MAXIMUM, CONSTANT = (
    operation_name(VHLO, name + "_v1")
    for name in ("func", "return", "dot_general", "broadcast_in_dim", "add", "maximum", "constant")
)

x, hidden, y = (tensor_type(f32, BATCH, n) for n in (INPUTS, HIDDEN, OUTPUTS))
weights = tensor_type(f32, INPUTS, HIDDEN), tensor_type(f32, HIDDEN, OUTPUTS)
biases = tensor_type(f32, HIDDEN), tensor_type(f32, OUTPUTS)
arguments = [x, weights[0], biases[0], weights[1], biases[1]]

nothing = attribute(ARRAY, varint(0))
# Attributes stand in the order of their names: lhs batching and contracting dimensions,
# precision, rhs batching and contracting dimensions.
product = [integers(), integers(1), nothing, integers(), integers(0)]
zeros = attribute(ELEMENTS, varints(hidden, 4) + struct.pack("<f", 0))  # all the same: stored once
body = [  # values 0 to 4 are the arguments
    operation(DOT, product, [hidden], [0, 1]),  # 5
    operation(BROADCAST, [integers(1)], [hidden], [2]),  # 6
    operation(ADD, None, [hidden], [5, 6]),  # 7
    operation(CONSTANT, [zeros], [hidden]),  # 8
    operation(MAXIMUM, None, [hidden], [7, 8]),  # 9
    operation(DOT, product, [y], [9, 3]),  # 10
    operation(BROADCAST, [integers(1)], [y], [4]),  # 11
    operation(ADD, None, [y], [10, 11]),  # 12
    operation(RETURN, None, (), [12]),
]
signature = types.place((VHLO, varint(FUNCTION) + numbered(arguments) + numbered([y])))
# arg_attrs, function_type, res_attrs, sym_name, sym_visibility
function = [nothing, attribute(TYPE, varint(signature)), nothing, text("main"), text("public")]
main = operation(FUNC, function, region=block(13, arguments, body))
program = varint(1 << 1) + operation(MODULE, region=block(0, [], [main]))

dialects = varints(2, BUILTIN << 1, VHLO << 1, len(operations))
offsets, entries = varints(len(attributes), len(types)), b""
for dialect, name in operations:
    dialects += varints(dialect, 1, name << 1 | 1)
for dialect, encoding in attributes + types:
    offsets += varints(dialect, 1, len(encoding) << 1 | 1)
    entries += encoding
texts = b"".join(s.encode() + b"\0" for s in strings)
lengths = numbered([len(s) + 1 for s in reversed(strings)])
settings = varint(len(properties)) + b"".join(varint(len(p)) + p for p in properties)
sections = (1, dialects), (3, offsets), (2, entries), (4, program), (0, lengths + texts)
header = b"ML\xefR" + varint(6) + b"StableHLO_v1.0.0\0"
whole = header + b"".join(section(*s) for s in (*sections, (8, settings)))
pathlib.Path(__file__).with_name("mlp.mlir.bc").write_bytes(whole)
