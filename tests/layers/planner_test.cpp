#include "layers/planner/planner.h"

#include <functional>
#include <limits>
#include <set>

#include <doctest/doctest.h>

#include "framework/scalars/random.h"
#include "framework/tensors/memory.h"
#include "layers/modules/activation.h"
#include "layers/modules/convolution.h"
#include "layers/modules/linear.h"
#include "layers/modules/normalization.h"
#include "layers/modules/pooling.h"
#include "models/models.h"
#include "tests/support/devices.h"

namespace heddle::test {

namespace {

// The reference enumerates all plans, and prices each by adding up what the model does, collective by collective.

struct Price {
  double communication = 0;
  double computing = 0;
  std::int64_t bytes = 0;
};

class Reference {
 public:
  Reference(const ModelSpec& model, const PlannerOptions& options)
      : model_(model), options_(options), costs_(model, options) {}

  Price price(const ModelPlacement& plan) {
    Price price;
    price.computing = costs_.loading_seconds(plan.input);
    for (std::size_t i = 0; i < plan.layers.size(); ++i) add_layer(plan, i, price);
    for (int value = 0; value <= model_.last_value(); ++value) add_readings(plan, value, price);
    return price;
  }

  /// Calls visit(plan) with each plan.
  template <class F>
  void for_each_plan(F&& visit) {
    ModelPlacement plan{.mesh = options_.mesh};
    for (const Axis axis : all_axes)
      if (options_.mesh.size(axis) > 1) plan.output[axis] = Placement::shard(0);
    plan.layers.resize(model_.applications().size());
    choices_.clear();
    for (const auto& application : model_.applications()) choices_.push_back(choices(application));
    const auto choose = [&](auto&& self, std::size_t layer) -> void {
      if (layer == plan.layers.size()) return visit(plan);
      for (const PerAxis<LayerOption>& choice : choices_[layer]) {
        plan.layers[layer] = choice;
        self(self, layer + 1);
      }
    };
    for (int bits = 0; bits < 8; ++bits) {
      bool is_other_way = true;
      for (const Axis axis : all_axes) {
        const bool sharded = (bits >> static_cast<int>(axis) & 1) != 0;
        if (sharded && options_.mesh.size(axis) == 1) is_other_way = false;
        plan.input[axis] = sharded ? Placement::shard(0) : Placement::replicate();
      }
      if (is_other_way) choose(choose, 0);
    }
  }
  /// The number of plans.
  double count() {
    double product = 1;
    for (const auto& application : model_.applications()) product *= static_cast<double>(choices(application).size());
    for (const Axis axis : all_axes) product *= options_.mesh.size(axis) > 1 ? 2 : 1;
    return product;
  }

 private:
  std::vector<PerAxis<LayerOption>> choices(const ModelSpec::Application& application) const {
    std::vector<PerAxis<LayerOption>> all(1);
    for (const Axis axis : all_axes) {
      if (options_.mesh.size(axis) == 1) continue;
      std::vector<PerAxis<LayerOption>> more;
      for (int k = 0; k < 6; ++k) {
        const auto kind = static_cast<Parallel>(k);
        if (!options_.automatic) {
          const bool is_requested = application.request && application.request->over == axis;
          if (is_requested && application.request->kind != kind) continue;
          if (!is_requested && !application.layer->follows() && kind != Parallel::data) continue;
        }
        const auto option = application.layer->option(kind, {axis, options_.mesh.size(axis)},
                                                      model_.input_shapes(application, options_.samples));
        if (!std::holds_alternative<LayerOption>(option)) continue;
        for (PerAxis<LayerOption> options : all) {
          options[axis] = std::get<LayerOption>(option);
          int channel_cuts = 0;
          int gathered = 0;
          for (const LayerOption& other : options.values) {
            channel_cuts += static_cast<int>(other.kind) >= static_cast<int>(Parallel::column) ? 1 : 0;
            gathered += other.kind == Parallel::parameter ? 1 : 0;
          }
          if (channel_cuts <= 1 && gathered <= 1) more.push_back(options);
        }
      }
      all = more;
    }
    return all;
  }

  bool is_trained(int value) const {
    if (value == 0) return false;
    const auto& application = model_.applications()[static_cast<std::size_t>(value) - 1];
    if (!application.layer->parameters().empty()) return true;
    for (const int input : application.inputs)
      if (is_trained(input)) return true;
    return false;
  }
  double slowest(Operation operation, double bytes, AxisSet axes) const {
    double longest = 0;
    for (int rank = 0; rank < options_.mesh.size(); ++rank)
      longest = std::max(longest, collective_seconds(options_.links, operation, static_cast<std::int64_t>(bytes),
                                                     options_.mesh.ranks_over(axes, rank)));
    return longest;
  }

  void add_layer(const ModelPlacement& plan, std::size_t index, Price& price) const {
    const LayerSpec& layer = *model_.applications()[index].layer;
    const LayerLayout layout = plan.layout(model_, index, {});
    const auto micro_batches = static_cast<double>(options_.micro_batches);
    std::map<unsigned, std::pair<AxisSet, double>> sums;
    const std::vector<Shape> shapes = layer.parameters();
    for (std::size_t p = 0; p < shapes.size(); ++p) {
      const ParameterPart part = layout.part(p, shapes[p]);
      const auto held = static_cast<double>(part.held_shape().numel());
      price.bytes +=
          static_cast<std::int64_t>(held) * 4 * (2 + options_.optimizer_states + (options_.averages_weights ? 1 : 0));
      if (!part.partial.empty()) {
        sums[part.partial.index()].first = part.partial;
        sums[part.partial.index()].second += 4 * held;
      }
      if (part.gathered) {
        const double whole = 4 * static_cast<double>(part.shape().numel());
        price.communication +=
            micro_batches * ((shapes[p].rank() > 1 ? 2 : 1) * slowest(Operation::all_gather, whole, {*part.gathered}) +
                             slowest(Operation::reduce_scatter, whole, {*part.gathered}));
      }
    }
    for (const auto& [bits, sum] : sums) price.communication += slowest(Operation::all_reduce, sum.second, sum.first);
    for (const LayerCollective& collective : layer.collectives(layout, DType::f32, options_.micro_batches))
      price.communication +=
          slowest(collective.operation, static_cast<double>(collective.elements * 4), collective.axes) *
          (collective.when == LayerCollective::When::step_end ? 1 : micro_batches);
    price.computing += costs_.layer(index, plan.layers[index]).seconds;
  }

  void add_readings(const ModelPlacement& plan, int value, Price& price) {
    std::vector<Placements> wanted;
    const auto want = [&](const Placements& where) {
      if (std::find(wanted.begin(), wanted.end(), where) == wanted.end()) wanted.push_back(where);
    };
    const auto& applications = model_.applications();
    for (std::size_t i = 0; i < applications.size(); ++i)
      for (std::size_t input = 0; input < applications[i].inputs.size(); ++input)
        if (applications[i].inputs[input] == value) want(plan.layout(model_, i, {}).input(input));
    if (value == model_.last_value()) want(plan.output);
    const Shape whole = model_.shape(value, options_.samples);
    for (const Placements& where : wanted) {
      price.bytes += local_shape(whole, where, options_.mesh, {}).numel() * 4;
      const auto key = std::tuple(value, code_of(plan.made(value)), code_of(where));
      const auto known = conversions_.find(key);
      if (known != conversions_.end()) {
        price.communication += known->second;
        continue;
      }
      const RedistributionSeconds seconds =
          redistribution_seconds(options_.links, whole, DType::f32, plan.made(value), where, options_.mesh);
      const double sum =
          static_cast<double>(options_.micro_batches) * (seconds.forward + (is_trained(value) ? seconds.backward : 0));
      conversions_[key] = sum;
      price.communication += sum;
    }
  }

  const ModelSpec& model_;
  PlannerOptions options_;
  PlacementCosts costs_;
  std::vector<std::vector<PerAxis<LayerOption>>> choices_;
  std::map<std::tuple<int, int, int>, double> conversions_;
};

constexpr double equal_seconds = 1e-9;

bool is_better(double a, double b) {
  return a < b - equal_seconds;
}

/// What the planner minimises, in lexicographic order.
std::pair<double, double> objective(const Price& price, bool automatic) {
  if (automatic) return {price.communication + price.computing, price.communication};
  return {price.communication, price.computing};
}

class Drawing {
 public:
  explicit Drawing(std::uint64_t seed) : draws_({seed}, Purpose::test, 0, 0) {}
  std::int64_t below(std::uint64_t end) { return static_cast<std::int64_t>(draws_.below(end)); }
  bool coin() { return below(2) == 0; }

  ModelSpec model(std::int64_t max_layers) {
    ModelSpec model({4, 4, 1 + below(2) * 3});
    for (std::int64_t i = 0, layers = 1 + below(static_cast<std::uint64_t>(max_layers)); i < layers; ++i) {
      const int from = coin() ? model.last_value() : static_cast<int>(below(model.last_value() + 1U));
      append(model, fmt::format("layer{}", i), from);
    }
    return model;
  }
  PlannerOptions options(bool automatic) {
    PlannerOptions options{.samples = 2 + below(7),
                           .micro_batches = 1 + below(3),
                           .links = {.within_node = {1e-4, 1e6}, .between_nodes = {1e-3, 2e5}},
                           .profile = {1e6, 1e6},
                           .optimizer_states = below(3),
                           .automatic = automatic};
    options.averages_weights = options.samples % 2 == 0;
    const std::int64_t layout = below(4);
    if (layout == 0) options.mesh = Mesh(2);
    if (layout == 1) options.mesh = Mesh(1, 1, 2 + static_cast<int>(below(3)));
    if (layout >= 2) options.mesh = Mesh(2, 1, 2);
    if (coin()) options.links.ranks_per_node = 2;
    return options;
  }
  void request(ModelSpec& model, const Mesh& mesh) {
    for (const auto& application : model.applications()) {
      const Axis axis = coin() ? Axis::dp : Axis::tp;
      const PlacementRequest request{static_cast<Parallel>(below(6)), axis};
      if (mesh.size(axis) == 1 || coin()) continue;
      const auto option =
          application.layer->option(request.kind, {axis, mesh.size(axis)}, model.input_shapes(application, 1));
      if (std::holds_alternative<LayerOption>(option)) model.place(application.name, request);
    }
  }

 private:
  void append(ModelSpec& model, const std::string& name, int from) {
    const std::int64_t channels = model.sample(from).back();
    switch (below(5)) {
      case 0:
        model.apply(name, BatchNorm::spec({.channels = channels, .synchronized = coin()}), {from});
        break;
      case 1:
        for (int other = 0; other < model.last_value(); ++other)
          if (other != from && model.sample(other) == model.sample(from)) {
            model.apply(name, Add::spec(), {from, other});
            return;
          }
        model.apply(name, Activation::spec(ActivationKind::relu), {from});
        break;
      default: {
        const bool grouped = channels > 1 && coin();
        model.apply(name,
                    Convolution::spec({.in = channels,
                                       .out = grouped ? channels : 4 + 2 * below(2),
                                       .groups = grouped ? (coin() ? channels : 2) : 1,
                                       .bias = coin()}),
                    {from});
      }
    }
  }

  RandomStream draws_;
};

}  // namespace

TEST_CASE("the plan costs what the cheapest of all plans costs, requests, branches and budgets included" *
          doctest::test_suite(test::long_under_sanitizers)) {
  int graphs = 0;
  int budgets = 0;
  double plans = 0;
  for (std::uint64_t seed = 1; graphs < 160; ++seed) {
    Drawing draw(seed);
    const bool automatic = seed % 3 == 0;
    ModelSpec model = draw.model(automatic ? 4 : 6);
    PlannerOptions options = draw.options(automatic);
    draw.request(model, options.mesh);
    Reference reference(model, options);
    if (reference.count() > 20000) continue;
    ++graphs;
    plans += reference.count();
    CAPTURE(seed);
    std::vector<Price> all;
    reference.for_each_plan([&](const ModelPlacement& plan) { all.push_back(reference.price(plan)); });
    const auto check = [&](std::int64_t budget) {
      const ModelPlacement plan = place(model, options);
      const Price price = reference.price(plan);
      CHECK(price.bytes <= budget);
      const auto [first, second] = objective(price, automatic);
      for (const Price& other : all) {
        if (other.bytes > budget) continue;
        const auto [other_first, other_second] = objective(other, automatic);
        const bool beats =
            is_better(other_first, first) || (!is_better(first, other_first) && is_better(other_second, second));
        if (beats) {
          FAIL_CHECK("another plan costs " << other_first << ", " << other_second << ", this one " << first << ", "
                                           << second);
          break;
        }
      }
    };
    check(std::numeric_limits<std::int64_t>::max());
    std::set<std::int64_t> sizes;
    for (const Price& price : all) sizes.insert(price.bytes);
    // A budget between the smallest plan and the largest.
    auto size = sizes.begin();
    std::advance(size, draw.below(sizes.size()));
    options.memory_budget = *size + draw.below(16);
    check(*options.memory_budget);
    if (sizes.size() > 1) ++budgets;
    options.memory_budget = *sizes.begin() - 1;
    const std::string text =
        fmt::format("the model: no placement fits into {} per rank, the least that is possible is {}",
                    format_bytes(*sizes.begin() - 1), format_bytes(*sizes.begin()));
    CHECK_THROWS_WITH_AS((void)place(model, options), text.c_str(), InputError);
  }
  CHECK(budgets > 80);
  CHECK(plans > 50000);
}

TEST_CASE("a deep network is placed within its budget, too" * doctest::test_suite(test::long_under_sanitizers)) {
  ModelConfig config;
  config.type = ModelType::iresnet100;
  const ModelSpec model = make_model(config, {3, 112, 112});
  PlannerOptions options{.mesh = Mesh(2, 1, 2), .samples = 64, .automatic = true};
  const Price free = Reference(model, options).price(place(model, options));
  options.memory_budget = free.bytes * 95 / 100;
  const Price bounded = Reference(model, options).price(place(model, options));
  CHECK(bounded.bytes <= *options.memory_budget);
  CHECK(bounded.bytes > *options.memory_budget * 98 / 100);
  CHECK(bounded.communication + bounded.computing >= free.communication + free.computing);
  CHECK(bounded.communication < 1.1 * free.communication);
}

TEST_CASE("steps that take days are placed as those that take seconds") {
  // Sums of costs in another order differ in their last bits then.
  ModelConfig config;
  config.type = ModelType::iresnet18;
  const ModelSpec model = make_model(config, {3, 112, 112});
  const auto placed = [&](double flops) {
    const PlannerOptions options{.mesh = Mesh(2, 1, 2),
                                 .samples = 4096,
                                 .links = {.within_node = {.latency = 1e-5, .bandwidth = flops}},
                                 .profile = {flops, flops},
                                 .automatic = true};
    return place(model, options).layers.size();
  };
  for (const double flops : {300.0, 1e7, 1e9, 1e12}) CHECK(placed(flops) == model.applications().size());
}

}  // namespace heddle::test
