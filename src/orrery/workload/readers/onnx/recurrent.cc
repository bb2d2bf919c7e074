// LSTM, GRU and RNN. What the input contributes is one product over the whole
// sequence, as every library computes it; the recurrence is a loop over time.
#include <array>

#include "orrery/workload/readers/onnx/contraction.h"
#include "orrery/workload/readers/onnx/loop.h"

namespace orrery::onnx {
namespace {

struct Recurrence {
  int64_t steps, batch, hidden, directions, gates;
  ElementType element;
  ValueId input_part;      ///< [steps, directions, batch, gates·hidden]
  ValueId weights;         ///< R: [directions, gates·hidden, hidden]
  ValueId state;           ///< [directions, batch, hidden]
  ValueId recurrent_bias;  ///< [directions, 1, gates·hidden], when it must stay apart.
  bool batch_first = false;
};

Recurrence recurrence(NodeContext& c, int64_t gates, bool bias_apart) {
  c.expect_inputs(3);
  if (c.rank(0) != 3 || c.rank(1) != 3 || c.rank(2) != 3)
    c.fail("X, W and R have three dimensions");
  Recurrence r{};
  r.batch_first = c.integer("layout", 0) != 0;
  r.gates = gates;
  r.element = c.element(0);
  r.steps = c.dims(0)[r.batch_first ? 1 : 0];
  r.batch = c.dims(0)[r.batch_first ? 0 : 1];
  r.directions = c.dims(1)[0];
  r.hidden = c.dims(2)[2];
  const int64_t width = c.multiply(gates, r.hidden);
  const std::string_view direction = c.string("direction", "forward");
  if (r.directions != (direction == "bidirectional" ? 2 : 1) || c.dims(1)[1] != width ||
      c.dims(1)[2] != c.dims(0)[2] || c.dims(2) != Dims{r.directions, width, r.hidden} ||
      c.integer("hidden_size", r.hidden) != r.hidden)
    c.fail("X, W, R and 'hidden_size' do not fit together");

  const ValueId x = c.operand(0), w = c.operand(1);
  r.weights = c.operand(2);
  // [time, batch, direction, gates] in whatever order X has, kept in memory as
  // [time, direction, batch, gates] for the loop.
  const Dims memory = r.batch_first ? Dims{3, 0, 2, 1} : Dims{3, 1, 2, 0};
  const ValueId product = dot_general(c, x, w, {{}, {}, {2}, {2}}, r.element, memory);
  r.input_part = bitcast(c, product, {r.steps, r.directions, r.batch, width});
  if (c.has_input(3)) {
    const ValueId both = c.operand(3);
    const auto half = [&](int64_t which) {
      const ValueId part =
          c.slice(both, {0, which * width}, {r.directions, (which + 1) * width}, {1, 1});
      return c.reshape(part, {r.directions, 1, width});
    };
    if (c.dims(3) != Dims{r.directions, c.multiply(2, width)}) c.fail("the bias does not fit");
    const ValueId input_bias = half(0), state_bias = half(1);
    r.input_part = c.elementwise(Opcode::k_add, {r.input_part, input_bias});
    if (bias_apart)
      r.recurrent_bias = state_bias;
    else
      r.input_part = c.elementwise(Opcode::k_add, {r.input_part, state_bias});
  }
  if (c.has_input(4)) c.note("sequence lengths of recurrent networks are ignored: all are full");
  return r;
}

ValueId initial_state(NodeContext& c, const Recurrence& r, size_t input) {
  const Dims dims = {r.directions, r.batch, r.hidden};
  if (!c.has_input(input)) return c.splat(r.element, dims, 0);
  const ValueId given = c.operand(input);
  return r.batch_first ? c.transpose(given, {1, 0, 2}) : c.reshape(given, dims);
}

/// state·Rᵀ for every direction: [directions, batch, gates·hidden].
ValueId recurrent_part(NodeContext& c, const Recurrence& r, ValueId state, ValueId weights) {
  return dot_general(c, state, weights, {{0}, {0}, {2}, {2}}, r.element);
}

ValueId gate(NodeContext& c, const Recurrence& r, ValueId all, int64_t first, int64_t count = 1) {
  return c.slice(all, {0, 0, first * r.hidden}, {r.directions, r.batch, (first + count) * r.hidden},
                 {1, 1, 1});
}

ValueId add(NodeContext& c, ValueId a, ValueId b) { return c.elementwise(Opcode::k_add, {a, b}); }
ValueId multiply(NodeContext& c, ValueId a, ValueId b) {
  return c.elementwise(Opcode::k_multiply, {a, b});
}
ValueId sigmoid(NodeContext& c, ValueId a) { return c.elementwise(Opcode::k_logistic, {a}); }
ValueId tanh(NodeContext& c, ValueId a) { return c.elementwise(Opcode::k_tanh, {a}); }

/// Other activations than the defaults cost about the same; they are named.
void note_activations(NodeContext& c) {
  if (c.has_attribute("activations") || c.has_attribute("clip"))
    c.note("activations of recurrent networks are counted as the default ones");
}

void set_outputs(NodeContext& c, const Recurrence& r, std::span<const ValueId> states,
                 ValueId all) {
  if (c.has_output(0)) c.set(0, r.batch_first ? c.transpose(all, {2, 0, 1, 3}) : all);
  for (size_t i = 0; i < states.size(); ++i)
    if (c.has_output(i + 1))
      c.set(i + 1, r.batch_first ? c.transpose(states[i], {1, 0, 2}) : states[i]);
}

/// Runs `cell` over time; the first state is also what a step puts out.
void run(NodeContext& c, const Recurrence& r, std::vector<ValueId> states,
         const std::function<std::vector<ValueId>(ValueId input, std::span<const ValueId>)>& cell) {
  const size_t count = states.size();
  states.push_back(c.splat(r.element, {r.steps, r.directions, r.batch, r.hidden}, 0));
  const auto results =
      emit_loop(c, r.steps, states, [&](ValueId time, std::span<const ValueId> values) {
        const ValueId input = read_slice(c, r.input_part, time);
        std::vector<ValueId> next = cell(input, values.subspan(0, count));
        next.push_back(write_slice(c, values[count], next[0], time));
        return next;
      });
  set_outputs(c, r, std::span(results).subspan(0, count), results[count]);
}

void lstm(NodeContext& c) {
  note_activations(c);
  const Recurrence r = recurrence(c, 4, false);
  const ValueId h = initial_state(c, r, 5), cell = initial_state(c, r, 6);
  ValueId peepholes;
  if (c.has_input(7)) {
    if (c.dims(7) != Dims{r.directions, c.multiply(3, r.hidden)})
      c.fail("the peepholes do not fit");
    peepholes = c.reshape(c.operand(7), {r.directions, 1, 3 * r.hidden});
  }
  run(c, r, {h, cell}, [&](ValueId input, std::span<const ValueId> state) {
    const ValueId gates = add(c, input, recurrent_part(c, r, state[0], r.weights));
    // ONNX orders the gates input, output, forget, cell.
    ValueId i = gate(c, r, gates, 0), o = gate(c, r, gates, 1), f = gate(c, r, gates, 2);
    const auto peep = [&](int64_t which, ValueId from) {
      const ValueId weight = c.slice(peepholes, {0, 0, which * r.hidden},
                                     {r.directions, 1, (which + 1) * r.hidden}, {1, 1, 1});
      return multiply(c, from, weight);
    };
    if (peepholes.valid()) {
      i = add(c, i, peep(0, state[1]));
      f = add(c, f, peep(2, state[1]));
    }
    const ValueId candidate = tanh(c, gate(c, r, gates, 3));
    const ValueId next =
        add(c, multiply(c, sigmoid(c, f), state[1]), multiply(c, sigmoid(c, i), candidate));
    if (peepholes.valid()) o = add(c, o, peep(1, next));
    return std::vector<ValueId>{multiply(c, sigmoid(c, o), tanh(c, next)), next};
  });
}

void gru(NodeContext& c) {
  note_activations(c);
  // With linear_before_reset the candidate's recurrent bias is inside the reset.
  const bool linear = c.integer("linear_before_reset", 0) != 0;
  const Recurrence r = recurrence(c, 3, linear);
  const ValueId h = initial_state(c, r, 5);
  run(c, r, {h}, [&](ValueId input, std::span<const ValueId> state) {
    ValueId update, reset, candidate;
    if (linear) {
      ValueId recurrent = recurrent_part(c, r, state[0], r.weights);
      if (r.recurrent_bias.valid()) recurrent = add(c, recurrent, r.recurrent_bias);
      const ValueId both = sigmoid(c, add(c, gate(c, r, input, 0, 2), gate(c, r, recurrent, 0, 2)));
      update = gate(c, r, both, 0);
      reset = gate(c, r, both, 1);
      candidate =
          tanh(c, add(c, gate(c, r, input, 2), multiply(c, reset, gate(c, r, recurrent, 2))));
    } else {
      // Two products: the candidate's needs the reset gate.
      const auto part = [&](int64_t first, int64_t count) {
        return c.slice(r.weights, {0, first * r.hidden, 0},
                       {r.directions, (first + count) * r.hidden, r.hidden}, {1, 1, 1});
      };
      const ValueId both =
          sigmoid(c, add(c, gate(c, r, input, 0, 2), recurrent_part(c, r, state[0], part(0, 2))));
      update = gate(c, r, both, 0);
      reset = gate(c, r, both, 1);
      candidate = tanh(c, add(c, gate(c, r, input, 2),
                              recurrent_part(c, r, multiply(c, reset, state[0]), part(2, 1))));
    }
    // h' = (1 − z)·candidate + z·h = candidate + z·(h − candidate)
    const ValueId change = c.elementwise(Opcode::k_subtract, {state[0], candidate});
    return std::vector<ValueId>{add(c, candidate, multiply(c, update, change))};
  });
}

void rnn(NodeContext& c) {
  note_activations(c);
  const Recurrence r = recurrence(c, 1, false);
  const ValueId h = initial_state(c, r, 5);
  run(c, r, {h}, [&](ValueId input, std::span<const ValueId> state) {
    return std::vector<ValueId>{tanh(c, add(c, input, recurrent_part(c, r, state[0], r.weights)))};
  });
}

constexpr OperatorRule kRules[] = {
    {"GRU", gru},
    {"LSTM", lstm},
    {"RNN", rnn},
};

}  // namespace

std::span<const OperatorRule> recurrent_rules() { return kRules; }

}  // namespace orrery::onnx
