#include "parallel/pipeline/engine.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "framework/error.h"
#include "framework/tensors/device.h"
#include "framework/tensors/offloaded.h"

namespace heddle {

namespace {

constexpr const char* has_no_parts = "these stages compute the loss at once";

using Cell = std::pair<int, int>;  // stage, micro-batch

Cell cell_of(const Action& action) {
  return {action.stage, action.micro_batch};
}

}  // namespace

/// One run of a rank's list.
class PipelineEngine::Execution {
 public:
  Execution(const PipelineProgram& program, PipelineStages& stages, Communicator& ranks, Device& device, Tracer& tracer,
            RankClock& clock)
      : schedule_(program.schedule),
        actions_(schedule_.ranks[at_index(ranks.rank())]),
        waits_(program.waits[at_index(ranks.rank())]),
        stages_(stages),
        ranks_(ranks),
        device_(device),
        tracer_(tracer),
        clock_(clock) {
    for (std::size_t i = 0; i < actions_.size(); ++i) {
      const Action& action = actions_[i];
      if (action.kind == ActionKind::recompute) recomputed_.insert(cell_of(action));
      if (action.kind == ActionKind::offload) offloaded_.insert(cell_of(action));
      if (action.kind == ActionKind::loss_sums) loss_in_parts_ = true;
      if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_input)
        has_backward_.insert(cell_of(action));
      if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight) last_weight_ = i;
    }
  }

  std::vector<Tensor> run() {
    for (std::size_t i = 0; i < actions_.size(); ++i) {
      if (const auto waits = waits_.find(i); waits != waits_.end())
        for (const Action& send : waits->second) wait_for(send);
      if (last_weight_ == i) stages_.before_last_weight_gradient();
      execute(actions_[i]);
    }
    while (!sends_.empty())
      wait_for(
          Action{sends_.begin()->first.second, sends_.begin()->first.first.first, sends_.begin()->first.first.second});
    std::vector<Tensor> outputs;
    for (auto& [micro_batch, output] : outputs_) outputs.push_back(std::move(output));
    return outputs;
  }

 private:
  /// An input of a stage whose gradient is wanted.
  struct Leaf {
    std::shared_ptr<Accumulator> gradient;
    Shape shape;
    DType dtype;
  };
  /// The state of one micro-batch in one stage, from its forward to its last action.
  struct MicroBatchState {
    std::vector<Tensor> inputs;  // kept from F to R
    std::vector<Leaf> leaves;
    std::vector<Variable> outputs;
    std::vector<Tensor> output_gradients;
    std::optional<WeightBackward> weight_part;
    std::vector<std::weak_ptr<Storage>> made;  // by the forward, and its inputs; kept from F to O
    std::unique_ptr<Offloaded> offloaded;      // from O to L
    double loaded_at = 0;                      // the end of L by the rank's clock
    std::shared_ptr<const Mark> loaded;        // the end of L on the device; null where it has ended
  };
  using SendKey = std::pair<Cell, ActionKind>;

  bool is_last(int stage) const { return stage == schedule_.stages() - 1; }

  void execute(const Action& action) {
    switch (action.kind) {
      case ActionKind::forward:
        return forward(action);
      case ActionKind::recompute:
        return recompute(action);
      case ActionKind::loss:
        return loss(action);
      case ActionKind::loss_broadcast:
      case ActionKind::loss_sums:
      case ActionKind::loss_gradient:
        return part_of_loss(action);
      case ActionKind::backward:
      case ActionKind::backward_input:
        return backward_of(action);
      case ActionKind::backward_weight:
        return backward_weight(action);
      case ActionKind::offload:
        return offload(action);
      case ActionKind::load:
        return load(action);
      case ActionKind::send_forward:
      case ActionKind::send_backward:
        return send(action);
      case ActionKind::recv_forward:
      case ActionKind::recv_backward:
        return receive(action);
    }
  }

  void forward(const Action& action) {
    std::vector<Tensor> inputs = action.stage == 0 ? std::vector{stages_.load(action.micro_batch)}
                                                   : take_received(action, ActionKind::recv_forward);
    const Tracer::Computing span(tracer_, to_string(action));
    const bool is_recomputed = recomputed_.contains(cell_of(action));
    std::vector<Tensor> values;
    if (has_backward_.contains(cell_of(action)) && !is_recomputed) {
      values = build(action, std::move(inputs), false);
    } else {
      if (is_recomputed) states_[cell_of(action)].inputs = inputs;
      const NoGrad no_grad(device_);
      std::vector<Variable> constants(std::make_move_iterator(inputs.begin()), std::make_move_iterator(inputs.end()));
      inputs.clear();
      values = values_of(stages_.forward(action.stage, action.micro_batch, std::move(constants), false));
    }
    if (is_last(action.stage))
      outputs_[action.micro_batch] = std::move(values.front());
    else
      hand_over(action, ActionKind::send_forward, action.stage + 1, std::move(values));
  }

  void recompute(const Action& action) {
    const Tracer::Computing span(tracer_, to_string(action));
    build(action, std::exchange(states_[cell_of(action)].inputs, {}), true);
  }

  static std::vector<Tensor> values_of(const std::vector<Variable>& variables) {
    std::vector<Tensor> values;
    for (const Variable& variable : variables) values.push_back(variable.value());
    return values;
  }

  /// Runs the forward with a graph, which is kept for the backward.
  std::vector<Tensor> build(const Action& action, std::vector<Tensor> inputs, bool recomputing) {
    MicroBatchState& state = states_[cell_of(action)];
    std::optional<StorageLog> log;
    if (offloaded_.contains(cell_of(action))) {
      log.emplace(device_);
      for (const Tensor& input : inputs) log->note(input.storage());
    }
    const std::vector<bool> wanted = stages_.input_gradients(action.stage);
    std::vector<Variable> variables;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Tensor& input = inputs[i];
      if (wanted[i]) {
        auto gradient = std::make_shared<Accumulator>(Category::activations);
        state.leaves.push_back({gradient, input.shape(), input.dtype()});
        variables.push_back(Variable::input(std::move(input), std::move(gradient)));
      } else {
        variables.emplace_back(std::move(input));
      }
    }
    state.outputs = stages_.forward(action.stage, action.micro_batch, std::move(variables), recomputing);
    std::vector<Tensor> values = values_of(state.outputs);
    for (Variable& output : state.outputs) output.release_value();
    if (log) state.made = without(log->take(), values);
    return values;
  }

  /// Another stage, or a send under way, may still read the values.
  static std::vector<std::weak_ptr<Storage>> without(std::vector<std::weak_ptr<Storage>> storages,
                                                     const std::vector<Tensor>& values) {
    std::erase_if(storages, [&](const std::weak_ptr<Storage>& storage) {
      return std::any_of(values.begin(), values.end(),
                         [&](const Tensor& value) { return value.storage() == storage.lock(); });
    });
    return storages;
  }

  void offload(const Action& action) {
    MicroBatchState& state = states_[cell_of(action)];
    state.offloaded = std::make_unique<Offloaded>(std::exchange(state.made, {}));
    move(action, *state.offloaded, [&] { state.offloaded->offload(); });
  }

  void load(const Action& action) {
    MicroBatchState& state = states_[cell_of(action)];
    state.loaded_at = move(action, *state.offloaded, [&] { state.loaded = state.offloaded->load(); });
    state.offloaded.reset();
  }

  /// Returns the end of the O or L by the rank's clock.
  double move(const Action& action, const Offloaded& moved, const std::function<void()>& issue) {
    const RankClock::Interval time = clock_.transfer(moved.bytes(), issue);
    tracer_.transfer(to_string(action), time, moved.bytes());
    return time.end;
  }

  /// The last stage's output; undefined on other ranks.
  Tensor take_output(const Action& action) {
    auto mine = outputs_.extract(action.micro_batch);
    return mine ? std::move(mine.mapped()) : Tensor();
  }

  void part_of_loss(const Action& action) {
    const Tensor output = action.kind == ActionKind::loss_broadcast ? take_output(action) : Tensor();
    const Tracer::Computing span(tracer_, to_string(action));
    if (action.kind == ActionKind::loss_broadcast)
      stages_.broadcast_for_loss(action.micro_batch, output);
    else if (action.kind == ActionKind::loss_sums)
      stages_.sum_loss(action.micro_batch);
    else
      stages_.compute_loss_gradient(action.micro_batch);
  }

  void loss(const Action& action) {
    const Tensor output = take_output(action);
    const bool has_output = output.defined();
    const Tracer::Computing span(tracer_, to_string(action));
    Tensor gradient = stages_.loss(action.micro_batch, output);
    if (has_output) states_[{schedule_.stages() - 1, action.micro_batch}].output_gradients = {std::move(gradient)};
  }

  void backward_of(const Action& action) {
    if (!is_last(action.stage))
      states_[cell_of(action)].output_gradients = take_received(action, ActionKind::recv_backward);
    else if (loss_in_parts_)
      states_[cell_of(action)].output_gradients = {stages_.wait_for_loss_gradient(action.micro_batch)};
    MicroBatchState& state = states_[cell_of(action)];
    clock_.wait_until(state.loaded_at);
    device_.backend().wait_for(std::exchange(state.loaded, nullptr).get());
    const Tracer::Computing span(tracer_, to_string(action));
    if (std::vector<Root> roots = roots_of(action, state); !roots.empty()) {
      if (action.kind == ActionKind::backward)
        backward(std::move(roots));
      else
        state.weight_part = backward_inputs(std::move(roots));
    }
    std::vector<Tensor> gradients;
    for (const Leaf& leaf : state.leaves) {
      Tensor gradient = leaf.gradient->gradient();
      leaf.gradient->clear();
      gradients.push_back(gradient.defined() ? std::move(gradient) : Tensor::zeros(device_, leaf.shape, leaf.dtype));
    }
    state.leaves.clear();
    if (action.kind == ActionKind::backward) states_.erase(cell_of(action));
    if (action.stage > 0) hand_over(action, ActionKind::send_backward, action.stage - 1, std::move(gradients));
  }

  /// The stage's outputs with the gradients that were received; outputs that depend on no leaf are left out.
  std::vector<Root> roots_of(const Action& action, MicroBatchState& state) {
    std::vector<Root> roots;
    std::vector<Variable> outputs = std::exchange(state.outputs, {});
    std::vector<Tensor> gradients = std::exchange(state.output_gradients, {});
    const std::vector<bool> given = stages_.output_gradients(action.stage);
    std::size_t arrived = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!given[i]) continue;
      Tensor gradient = std::move(gradients[arrived++]);
      if (outputs[i].leads().anywhere()) roots.push_back({std::move(outputs[i]), std::move(gradient)});
    }
    return roots;
  }

  void backward_weight(const Action& action) {
    const Tracer::Computing span(tracer_, to_string(action));
    if (std::optional<WeightBackward> part = std::move(states_[cell_of(action)].weight_part)) part->run();
    states_.erase(cell_of(action));
  }

  /// Keeps an output for its send if the next stage is on another rank; else passes it on at once.
  void hand_over(const Action& made, ActionKind kind, int to, std::vector<Tensor> values) {
    const Cell target{to, made.micro_batch};
    if (schedule_.rank_at(to, made.micro_batch) == ranks_.rank())
      local_[{target, kind}] = std::move(values);
    else
      unsent_[{cell_of(made), kind}] = std::move(values);
  }

  void send(const Action& action) {
    std::vector<Tensor> values = std::move(unsent_.extract(SendKey{cell_of(action), action.kind}).mapped());
    const int to = schedule_.rank_at(action.kind == ActionKind::send_forward ? action.stage + 1 : action.stage - 1,
                                     action.micro_batch);
    std::vector<Work<void>>& works = sends_[{cell_of(action), action.kind}];
    for (const Tensor& value : values) works.push_back(ranks_.send(value, to));
  }

  void wait_for(const Action& send) {
    auto sent = sends_.extract(SendKey{cell_of(send), send.kind});
    for (Work<void>& work : sent.mapped()) work.wait();
  }

  void receive(const Action& action) {
    const bool forward = action.kind == ActionKind::recv_forward;
    const int from = schedule_.rank_at(forward ? action.stage - 1 : action.stage + 1, action.micro_batch);
    const std::vector<bool> gradients =
        forward ? stages_.input_gradients(action.stage) : stages_.output_gradients(action.stage);
    const auto messages =
        forward ? static_cast<std::ptrdiff_t>(gradients.size()) : std::count(gradients.begin(), gradients.end(), true);
    std::vector<Work<Tensor>>& works = receives_[{cell_of(action), action.kind}];
    for (std::ptrdiff_t i = 0; i < messages; ++i) works.push_back(ranks_.recv(from));
  }

  /// The tensors that were received for an action, or computed for it on this rank.
  std::vector<Tensor> take_received(const Action& action, ActionKind kind) {
    const ActionKind sent = kind == ActionKind::recv_forward ? ActionKind::send_forward : ActionKind::send_backward;
    if (auto local = local_.extract(SendKey{cell_of(action), sent})) return std::move(local.mapped());
    std::vector<Tensor> values;
    if (auto arrived = receives_.extract(SendKey{cell_of(action), kind}))
      for (Work<Tensor>& work : arrived.mapped()) values.push_back(work.wait());
    return values;
  }

  const Schedule& schedule_;
  const std::vector<Action>& actions_;
  const std::map<std::size_t, std::vector<Action>>& waits_;
  PipelineStages& stages_;
  Communicator& ranks_;
  Device& device_;
  Tracer& tracer_;
  RankClock& clock_;
  std::set<Cell> recomputed_;
  std::set<Cell> offloaded_;
  std::set<Cell> has_backward_;
  bool loss_in_parts_ = false;
  std::optional<std::size_t> last_weight_;
  std::map<Cell, MicroBatchState> states_;
  std::map<int, Tensor> outputs_;                          // of the last stage, by micro-batch, until H or J
  std::map<SendKey, std::vector<Tensor>> local_;           // for another stage of this rank
  std::map<SendKey, std::vector<Tensor>> unsent_;          // until the send
  std::map<SendKey, std::vector<Work<void>>> sends_;       // under way
  std::map<SendKey, std::vector<Work<Tensor>>> receives_;  // posted receives
};

void PipelineStages::broadcast_for_loss(int /*micro_batch*/, const Tensor& /*output*/) {
  fail("{}", has_no_parts);
}
void PipelineStages::sum_loss(int /*micro_batch*/) {
  fail("{}", has_no_parts);
}
void PipelineStages::compute_loss_gradient(int /*micro_batch*/) {
  fail("{}", has_no_parts);
}
Tensor PipelineStages::wait_for_loss_gradient(int /*micro_batch*/) {
  fail("{}", has_no_parts);
}

PipelineEngine::PipelineEngine(std::shared_ptr<const PipelineProgram> program, Communicator& ranks, Device& device,
                               Tracer& tracer, RankClock& clock)
    : program_(std::move(program)), ranks_(ranks), device_(device), tracer_(tracer), clock_(clock) {}

std::vector<Tensor> PipelineEngine::run(PipelineStages& stages) {
  return Execution(*program_, stages, ranks_, device_, tracer_, clock_).run();
}

}  // namespace heddle
