#!/usr/bin/env python3
"""Writes the Chakra execution traces beside it: one training step, twice.

step.<rank>.et      four ranks that all do the same: a forward and a backward pass over four
                    layers, each layer's gradients all-reduced as soon as they are there
pipeline.<rank>.et  the same layers over two stages of two ranks each: activations go to the
                    next stage and gradients come back, and the ranks of a stage, a communicator
                    group of groups.json, all-reduce their gradients

The encoding is protobuf's: every message behind its length (Chakra's et_def.proto).
"""
import pathlib

COMP, SEND, RECV, COLL = 4, 5, 6, 7
ALL_REDUCE = 0


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(name, value):
    number = {bool: 27, int: 9, str: 29}[type(value)]
    return field(1, name) + field(number, int(value) if isinstance(value, bool) else value)


class Trace:
    def __init__(self):
        self.messages = [field(1, "0.0.4")]

    def add(self, kind, name, after, microseconds=0, **attributes):
        """Adds a node; its id."""
        node_id = len(self.messages) - 1
        body = (field(1, node_id) if node_id else b"") + field(2, name) + field(3, kind)
        if after:
            body += field(5, b"".join(varint(a) for a in after))
        if microseconds:
            body += field(7, microseconds)
        for key, value in {"is_cpu_op": False, **attributes}.items():
            body += field(10, attribute(key, value))
        self.messages.append(body)
        return node_id

    def write(self, path):
        path.write_bytes(b"".join(varint(len(m)) + m for m in self.messages))


FORWARD, BACKWARD, GRADIENTS, ACTIVATIONS = 40, 80, 8 << 20, 2 << 20


def data_parallel(layers):
    trace = Trace()
    last = []
    for layer in range(layers):
        last = [trace.add(COMP, f"forward {layer}", last, FORWARD)]
    for layer in reversed(range(layers)):
        last = [trace.add(COMP, f"backward {layer}", last, BACKWARD)]
        trace.add(COLL, f"gradients {layer}", last, comm_type=ALL_REDUCE, comm_size=GRADIENTS)
    return trace


def pipeline(rank, layers):
    stage = rank // 2
    group = str(stage + 1)
    other = (rank + 2) % 4
    trace = Trace()
    last = []
    if stage == 1:
        last = [trace.add(RECV, "activations", [], comm_src=other, comm_dst=rank,
                          comm_size=ACTIVATIONS, comm_tag=1)]
    for layer in range(layers):
        last = [trace.add(COMP, f"forward {layer}", last, FORWARD)]
    if stage == 0:
        sent = trace.add(SEND, "activations", last, comm_src=rank, comm_dst=other,
                         comm_size=ACTIVATIONS, comm_tag=1)
        last = [trace.add(RECV, "their gradients", [sent], comm_src=other, comm_dst=rank,
                          comm_size=ACTIVATIONS, comm_tag=2)]
    for layer in reversed(range(layers)):
        last = [trace.add(COMP, f"backward {layer}", last, BACKWARD)]
    if stage == 1:
        last = [trace.add(SEND, "their gradients", last, comm_src=rank, comm_dst=other,
                          comm_size=ACTIVATIONS, comm_tag=2)]
    trace.add(COLL, "gradients", last, comm_type=ALL_REDUCE, comm_size=layers * GRADIENTS,
              pg_name=group)
    return trace


if __name__ == "__main__":
    folder = pathlib.Path(__file__).parent
    for rank in range(4):
        data_parallel(4).write(folder / f"step.{rank}.et")
        pipeline(rank, 2).write(folder / f"pipeline.{rank}.et")
