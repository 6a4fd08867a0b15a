// The elementwise functions of one and of two operands.
#pragma once

namespace heddle {

enum class UnaryOp { relu, relu6, sigmoid, tanh, gelu, negate, exp, log, sqrt, square };
enum class BinaryOp { add, subtract, multiply, divide };

/// True if the derivative of `op` is computed from its input, false if from its output.
constexpr bool unary_keeps_input(UnaryOp op) {
  return op == UnaryOp::gelu || op == UnaryOp::log || op == UnaryOp::square || op == UnaryOp::negate;
}

}  // namespace heddle
